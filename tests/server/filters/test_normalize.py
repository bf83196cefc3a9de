from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth import lookup
from troth.server.filters.normalize import normalize
from troth.types import Messages, Refusal


def messages(update: Tensor) -> Messages:
    n = len(update)
    extra = 1e9 * torch.ones(n, 2, dtype=update.dtype)
    return Messages(
        update, extra, torch.arange(n) / 10, torch.arange(n) + 1, torch.arange(n) + 40
    )


def of(update: Tensor, **options: Any) -> Tensor:
    return normalize(messages(update), **options).update


def test_by_hand() -> None:
    update = torch.tensor([[3.0, 4.0], [0.0, -0.1], [0.0, 0.0]])
    expected = [[0.6, 0.8], [0.0, -1.0], [0.0, 0.0]]
    torch.testing.assert_close(of(update), torch.tensor(expected))
    torch.testing.assert_close(of(update, length=5.0)[0], update[0])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=1, max_size=6),
    st.sampled_from([1e-30, 1.0, 2.5, 1e30]),
)
def test_every_row_is_as_long(row: list[float], length: float) -> None:
    update = torch.tensor([row], dtype=torch.float32)
    found = of(update, length=length).double()
    norm = float(torch.linalg.vector_norm(found))
    assert norm == pytest.approx(length if any(row) else 0.0, rel=1e-5)
    if any(row):  # and it points where it did
        cosine = torch.nn.functional.cosine_similarity(found, update.double(), eps=0.0)
        assert float(cosine) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("value", [2.0**-149, 1e-40, 1e30, 3e38])
def test_extremes(value: float) -> None:
    update = torch.full((2, 4), value)
    torch.testing.assert_close(of(update), torch.full((2, 4), 0.5))


def test_leaves_the_rest_alone() -> None:
    given_ = messages(torch.tensor([[3.0], [0.5], [-9.0]]))
    found = normalize(given_)
    assert found.update.tolist() == [[1.0], [1.0], [-1.0]]
    for before, after in zip(given_[1:], found[1:], strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("length", [0.0, -1.0, math.nan, math.inf])
def test_refuses_what_is_no_length(length: float) -> None:
    sentence = f"normalize's length = {length} must be a positive number"
    with pytest.raises(Refusal, match=sentence):
        of(torch.zeros(2, 2), length=length)
    with pytest.raises(Refusal, match=sentence):
        of(torch.zeros(0, 2), length=length)


def test_options() -> None:
    assert lookup.check("filter", "normalize", {"length": 2}) == {"length": 2.0}
