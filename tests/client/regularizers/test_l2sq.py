import torch

from troth.client.regularizers.l2sq import l2sq

from ..hand import batch, drawn

NONE = batch()


def test_by_hand():
    v, w = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])
    assert l2sq().value(v, w, NONE).item() == 10.0  # (0 + 4 + 16) / 2
    assert l2sq().grad(v, w, NONE).tolist() == [0.0, 2.0, 4.0]


def test_is_symmetric_and_its_gradient_is_not():
    v, w = drawn(2, 5)
    assert l2sq().value(v, w, NONE) == l2sq().value(w, v, NONE)
    assert torch.equal(l2sq().grad(v, w, NONE), -l2sq().grad(w, v, NONE))
