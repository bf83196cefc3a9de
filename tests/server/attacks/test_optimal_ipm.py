import torch
from clients_sent import messages

from troth.server.attacks.optimal_ipm import optimal_ipm


def watchful(messages):
    """Leaves out rows longer than 6, and takes the mean."""
    return messages.update[messages.update.norm(dim=1) <= 6].mean(dim=0)


def test_by_hand():
    """Rows longer than 6 are left out; the mean is (2, 0), so ε = 3 is the most."""
    update = torch.tensor([[1.0, 1.0], [3.0, -1.0], [7.0, 7.0]]).double()
    found = optimal_ipm(
        messages(update), torch.arange(3) == 2, watchful, evaluations=40
    )
    torch.testing.assert_close(
        found.update[2], torch.tensor([-6.0, 0.0]).double(), rtol=1e-3, atol=0
    )
    assert found.update[2].norm() <= 6
