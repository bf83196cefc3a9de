import torch
from torch.nn.functional import l1_loss

from troth.networks.losses.absolute import absolute

F64 = torch.float64


def test_by_hand_and_by_torch():
    f, y = torch.tensor([[3.0], [-1.0], [2.0]]), torch.tensor([1.0, 1.5, 2.0])
    assert absolute(f, y).tolist() == [2.0, 2.5, 0.0]
    f, y = torch.randn(50, 1, dtype=F64), torch.randn(50, dtype=F64)
    assert torch.equal(absolute(f, y), l1_loss(f[:, 0], y, reduction="none"))
