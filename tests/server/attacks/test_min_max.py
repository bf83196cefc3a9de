from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth import lookup
from troth.server.attacks.min_max import min_max
from troth.types import Messages, Refusal

DIRECTIONS: list[Any] = ["std", "unit", "sign"]


def way(rows: Tensor, direction: str) -> Tensor:
    mean = rows.mean(dim=0)
    return {
        "std": -rows.std(dim=0, correction=0),
        "unit": -mean / mean.norm(),
        "sign": -mean.sign(),
    }[direction]


def fits(rows: Tensor, sent: Tensor) -> bool:
    """The definition, word for word."""
    widest = (rows[:, None] - rows).norm(dim=2).max()
    return bool((rows - sent).norm(dim=1).max() <= widest)


def by_bisection(rows: Tensor, direction: str) -> Tensor:
    mean, p = rows.mean(dim=0), way(rows, direction)
    low, high = 0.0, 1.0
    while fits(rows, mean + high * p):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        inside = fits(rows, mean + middle * p)
        low, high = (middle, high) if inside else (low, middle)
    return mean + low * p


def test_by_hand(make: Any) -> None:
    """Benign 0 and 2: mean 1, widest 2. 1 − γσ is 2 from the farther one at 0."""
    update, hostile = torch.tensor([[0.0], [9.0], [2.0]]), torch.tensor([0, 1, 0]) > 0
    for direction in DIRECTIONS:
        found = min_max(make(update), hostile, direction=direction).update
        assert found.tolist() == [[0.0], [0.0], [2.0]]


def test_by_hand_in_the_plane(make: Any) -> None:
    """Corners (±1, 0), (0, ±1) around (3, 0): widest 2; with the way −x from (3, 0),
    the row (4, 0) is at 1 + t = 2 first: t = 1."""
    corners = torch.tensor([[4.0, 0.0], [2.0, 0.0], [3.0, 1.0], [3.0, -1.0]])
    update = torch.cat([corners, torch.zeros(2, 2)]).double()
    hostile = torch.arange(6) > 3
    found = min_max(make(update), hostile, direction="unit").update
    torch.testing.assert_close(found[4:], torch.tensor([[2.0, 0.0]] * 2).double())


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


def sent(rows: Tensor, direction: Any) -> Tensor:
    n = len(rows) + 1
    zeros, ids = torch.zeros(n), torch.arange(n)
    update = torch.cat([rows, torch.zeros_like(rows[:1])])
    messages = Messages(update, zeros[:, None], zeros, ids, ids)
    return min_max(messages, ids == n - 1, direction=direction).update[-1]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_rows_that_hardly_differ(direction: Any) -> None:
    """Distances of 1e-6 around 1: a formula of squares of the rows would be noise."""
    draw = torch.Generator().manual_seed(1)
    away = torch.randn(40, 30, generator=draw, dtype=torch.float64) * 1e-6
    rows = away + 1
    found = sent(rows, direction)
    torch.testing.assert_close(
        found - 1, by_bisection(rows, direction) - 1, rtol=1e-7, atol=1e-14
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_equal_rows_and_zeros_are_sent_as_they_are(direction: Any) -> None:
    for value in (0.0, 0.1, -3e38):
        rows = torch.full((5, 3), value)
        assert torch.equal(sent(rows, direction), rows[0])


def test_without_a_direction_it_is_the_mean() -> None:
    rows = torch.tensor([[1.0, -2.0], [-1.0, 2.0]])
    assert sent(rows, "unit").tolist() == sent(rows, "sign").tolist() == [0.0, 0.0]


def test_options_and_reference() -> None:
    assert lookup.check("attack", "min_max", {}) == {"direction": "std"}
    with pytest.raises(Refusal, match=r"'mean' is not one of 'std', 'unit', 'sign'"):
        lookup.check("attack", "min_max", {"direction": "mean"})
    (entry,) = lookup.about("attack", "min_max").citations
    assert entry.startswith("@inproceedings{shejwalkar2021manipulating")
