from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth import lookup
from troth.server.attacks.min_max import min_max
from troth.server.attacks.min_sum import min_sum
from troth.types import Messages, Refusal

DIRECTIONS: list[Any] = ["std", "unit", "sign"]


def sums(rows: Tensor, point: Tensor) -> float:
    return float((rows - point).square().sum())


def by_bisection(rows: Tensor, direction: str) -> Tensor:
    """The definition, word for word."""
    mean = rows.mean(dim=0)
    p = {
        "std": -rows.std(dim=0, correction=0),
        "unit": -mean / mean.norm(),
        "sign": -mean.sign(),
    }[direction]
    most = max(sums(rows, row) for row in rows)
    low, high = 0.0, 1.0
    while sums(rows, mean + high * p) <= most:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        inside = sums(rows, mean + middle * p) <= most
        low, high = (middle, high) if inside else (low, middle)
    return mean + low * p


def sent(rows: Tensor, direction: Any, attack: Any = min_sum) -> Tensor:
    n = len(rows) + 1
    zeros, ids = torch.zeros(n), torch.arange(n)
    update = torch.cat([rows, torch.zeros_like(rows[:1])])
    messages = Messages(update, zeros[:, None], zeros, ids, ids)
    found: Tensor = attack(messages, ids == n - 1, direction=direction).update[-1]
    return found


def test_by_hand(make: Any) -> None:
    """Benign 0, 0, 3: mean 1, the farthest at 2: so is −1, on the other side.

    Its squares 1 + 1 + 16 are those of the row 3: 9 + 9 + 0.
    """
    update = torch.tensor([[0.0], [0.0], [3.0], [9.0]])
    found = min_sum(make(update), torch.arange(4) == 3).update
    torch.testing.assert_close(found, torch.tensor([[0.0], [0.0], [3.0], [-1.0]]))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(1, 6),
    st.floats(-3, 3),
    st.sampled_from(DIRECTIONS),
    st.integers(0, 10**6),
)
def test_equals_bisection_of_the_definition(
    k: int, d: int, shift: float, direction: Any, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(k, d, generator=draw, dtype=torch.float64) + shift
    found = sent(rows, direction)
    torch.testing.assert_close(found, by_bisection(rows, direction))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_rows_that_hardly_differ(direction: Any) -> None:
    draw = torch.Generator().manual_seed(1)
    rows = torch.randn(40, 30, generator=draw, dtype=torch.float64) * 1e-6 + 1
    expected = by_bisection(rows, direction) - 1
    torch.testing.assert_close(
        sent(rows, direction) - 1, expected, rtol=1e-7, atol=1e-14
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_it_stays_nearer_than_min_max(direction: Any) -> None:
    """As the paper finds: where the farthest row is at R from the mean, every row is
    within 2R of min_sum's, and the widest pair at least R apart."""
    for seed in range(10):
        draw = torch.Generator().manual_seed(seed)
        rows = torch.randn(8, 200, generator=draw, dtype=torch.float64) + 0.1
        mean = rows.mean(dim=0)
        near, far = (sent(rows, direction, a) for a in (min_sum, min_max))
        assert (near - mean).norm() <= (far - mean).norm()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_equal_rows_and_zeros_are_sent_as_they_are(direction: Any) -> None:
    for value in (0.0, 0.1, -3e38):
        rows = torch.full((5, 3), value)
        assert torch.equal(sent(rows, direction), rows[0])


def test_options_and_reference() -> None:
    assert lookup.check("attack", "min_sum", {}) == {"direction": "std"}
    with pytest.raises(Refusal, match=r"'mean' is not one of 'std', 'unit', 'sign'"):
        lookup.check("attack", "min_sum", {"direction": "mean"})
    (entry,) = lookup.about("attack", "min_sum").citations
    assert entry.startswith("@inproceedings{shejwalkar2021manipulating")
