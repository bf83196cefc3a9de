from __future__ import annotations

import torch

from troth import lookup
from troth.client.regularizers.l2sq import l2sq
from troth.types import Batch

NONE = Batch(*(torch.zeros(0) for _ in range(5)))


def test_by_hand() -> None:
    v, w = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, -1.0])
    assert l2sq().value(v, w, NONE).item() == 10.0  # (0 + 4 + 16) / 2
    assert l2sq().grad(v, w, NONE).tolist() == [0.0, 2.0, 4.0]


def test_is_symmetric_and_its_gradient_is_not() -> None:
    v, w = torch.randn(2, 5, dtype=torch.float64)
    assert l2sq().value(v, w, NONE) == l2sq().value(w, v, NONE)
    assert torch.equal(l2sq().grad(v, w, NONE), -l2sq().grad(w, v, NONE))


def test_says_where_it_comes_from() -> None:
    assert lookup.check("regularizer", "l2sq", {}) == {}
    (entry,) = lookup.about("regularizer", "l2sq").citations
    assert entry.startswith("@inproceedings{li2021ditto")
