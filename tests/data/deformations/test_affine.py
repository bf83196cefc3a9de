import torch

from troth.data.deformations.affine import affine


def test_by_hand():
    """u = −2r turns rows over, v = −2s columns; b and d of 1 swap what −1 drops."""
    x = torch.arange(6.0).reshape(1, 1, 2, 3)
    over = affine(x, torch.tensor([[-2.0, 0, 0, 0, 0, 0]]), interpolation="nearest")
    assert torch.equal(over, x.flip(-2))
    over = affine(x, torch.tensor([[0.0, 0, 0, 0, -2, 0]]), interpolation="nearest")
    assert torch.equal(over, x.flip(-1))
    square = torch.arange(9.0).reshape(1, 1, 3, 3)
    flow = torch.tensor([[-1.0, 1, 0, 1, -1, 0]])
    assert torch.equal(affine(square, flow, interpolation="nearest"), square.mT)
    out = affine(torch.ones(1, 1, 8, 8), torch.tensor([[1.0, 0, 0, 0, 1, 0]]))
    assert torch.allclose(out[..., 2:6, 2:6], torch.ones(4, 4))
    assert out.sum() == 16  # nothing left or found
