import torch
from torch.nn.functional import mse_loss

from troth.networks.losses.squared import squared

F64 = torch.float64


def test_by_hand_and_by_torch():
    f, y = torch.tensor([[3.0], [-1.0], [2.0]]), torch.tensor([1.0, 1.0, 2.0])
    assert squared(f, y).tolist() == [2.0, 2.0, 0.0]  # ½·2², ½·(−2)², 0
    f, y = torch.randn(50, 1, dtype=F64), torch.randn(50, dtype=F64)
    theirs = mse_loss(f[:, 0], y, reduction="none")
    torch.testing.assert_close(squared(f, y), theirs / 2)
    assert torch.equal(squared(f[:, 0], y), squared(f, y))  # a column or none
