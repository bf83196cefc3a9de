import torch

from troth.data.deformations._flow import pixels_per_unit
from troth.data.deformations.translation import translation


def test_by_hand():
    x = torch.tensor([[[[1.0, 2, 3, 4]]]])
    right, half = torch.tensor([[0.0, -0.5]]), torch.tensor([[0.0, 0.25]])
    assert translation(x, right).tolist() == [[[[0, 1, 2, 3]]]]  # to the right
    assert translation(x, right, padding="border").tolist() == [[[[1, 1, 2, 3]]]]
    out = translation(x, right * 2, padding="reflection")
    assert out.tolist() == [[[[2, 1, 1, 2]]]]
    assert translation(x, half).tolist() == [[[[1.5, 2.5, 3.5, 2]]]]
    down = translation(x.mT, torch.tensor([[-0.5, 0.0]]))
    assert down.flatten().tolist() == [0, 1, 2, 3]
    for far in (2.0, -2.0, 1e6, -1e30):
        assert (translation(x + 1, torch.tensor([[0.0, far]])) == 0).all()
    assert pixels_per_unit(32, 28) == (16.0, 14.0)
    assert pixels_per_unit(32, 28, "mixed") == (16.0, 14.0)
    assert pixels_per_unit(32, 28, "centres") == (15.5, 13.5)
