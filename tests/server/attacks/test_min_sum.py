import torch
from clients_sent import column

from troth.server.attacks.min_sum import min_sum


def test_by_hand():
    """Benign 0, 0, 3: mean 1, the farthest at 2: so is −1, on the other side.

    Its squares 1 + 1 + 16 are those of the row 3: 9 + 9 + 0.
    """
    found = min_sum(column(0.0, 0.0, 3.0, 9.0), torch.arange(4) == 3).update[:, 0]
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, 3.0, -1.0]))
