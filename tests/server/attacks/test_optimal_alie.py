import torch
from clients_sent import messages

from troth.server.attacks.optimal_alie import optimal_alie


def watchful(messages):
    """Leaves out rows farther than 4 from the origin, and takes the mean."""
    return messages.update[messages.update.norm(dim=1) <= 4].mean(dim=0)


def test_by_hand():
    """Mean (0, 0), spread (1, 1)·√(2/3): so z·√(4/3) = 4 is the most that is kept."""
    update = torch.tensor([[1.0, 0], [-1.0, 1], [0.0, -1], [7.0, 7]]).double()
    hostile = torch.arange(4) == 3
    found = optimal_alie(messages(update), hostile, watchful, evaluations=40).update
    assert 3.99 <= float(found[3].norm()) <= 4
    torch.testing.assert_close(found[3, :1], found[3, 1:])
    assert float(found[3, 0]) > 0  # supported(4, 1) is negative: the other side
