import torch

from troth.client.regularizers.l2sq import l2sq

from ..hand import batch

NONE = batch()


def test_by_hand():
    v, w = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])
    assert l2sq().value(v, w, NONE).item() == 10.0  # (0 + 4 + 16) / 2
    assert l2sq().grad(v, w, NONE).tolist() == [0.0, 2.0, 4.0]
