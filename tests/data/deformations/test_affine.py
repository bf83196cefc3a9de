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
    x = torch.arange(4.0).expand(1, 1, 4, 4)
    out = affine(x, torch.tensor([[0.0, 0, 0, 0.5, 0, 0]]), padding="border")
    rows = [[0.0, 0.25, 1.25, 2.25], [0, 0.75, 1.75, 2.75]]
    rows += [[0.25, 1.25, 2.25, 3], [0.75, 1.75, 2.75, 3]]
    assert torch.allclose(out[0, 0], torch.tensor(rows))


def test_parameters_of_two_changes_add_up_and_the_image_is_read_once():
    """What a certificate is about: ν of the sum, not one change after the other."""
    x = torch.rand(1, 1, 9, 9, dtype=torch.float64)
    p, q = torch.rand(2, 1, 6, dtype=torch.float64) / 4
    both = affine(x, p + q)
    assert (affine(affine(x, p), q) - both).abs().max() > 0.01
