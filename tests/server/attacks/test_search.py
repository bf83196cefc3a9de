"""The search for the strength that hurts most."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.server.attacks import _search


class Counted:
    """A harm that remembers what it was asked."""

    def __init__(self, harm: Callable[[float], float]) -> None:
        self.harm, self.asked = harm, list[float]()

    def __call__(self, strength: float) -> float:
        self.asked.append(strength)
        return self.harm(strength)


@pytest.mark.parametrize("plain", [0.0, 0.5, 1.43, -0.14, 3.0])
@pytest.mark.parametrize("evaluations", [1, 2, 3, 4, 7, 20, 100])
def test_asks_no_more_than_it_may_and_the_plain_one_first(
    plain: float, evaluations: int
) -> None:
    for harm in (math.sin, abs, lambda x: -abs(x - 3), lambda x: 1.0):
        counted = Counted(harm)
        best = _search.strongest(counted, plain, evaluations)
        assert counted.asked[0] == plain
        assert len(counted.asked) <= evaluations
        assert len({*counted.asked}) == len(counted.asked)
        assert harm(best) == max(map(harm, counted.asked)) >= harm(plain)


def test_one_evaluation_is_the_plain_attack() -> None:
    assert _search.strongest(abs, 0.7, 1) == 0.7


@given(st.floats(0.1, 300))
def test_finds_where_a_defence_begins_to_see(edge: float) -> None:
    """Harm grows up to an edge and is nothing beyond."""
    found = _search.strongest(lambda x: x if x <= edge else 0.0, 0.5, 20)
    assert (0.98 if edge <= 32 else 0.9) * edge <= found <= edge


@given(st.floats(0.1, 300))
def test_finds_a_smooth_top(top: float) -> None:
    found = _search.strongest(lambda x: -(math.log(x / top) ** 2), 0.5, 40)
    assert found == pytest.approx(top, rel=1e-2)


def test_without_an_end_it_goes_on_doubling() -> None:
    """Ten powers of two up to 32, and the other nine looks: 2¹⁴."""
    assert _search.strongest(lambda x: x, 0.5, 20) >= 2.0**13
    assert _search.strongest(lambda x: x, 0.5, 10_000) < 2.0**62


def test_stays_on_the_side_of_the_plain_one() -> None:
    counted = Counted(abs)
    assert _search.strongest(counted, -0.14, 20) < -1000
    assert all(x < 0 for x in counted.asked)


def test_where_all_is_equal_the_plain_one() -> None:
    """A defence that refuses whatever comes."""
    for plain in (0.0, 0.5, -2.0):
        assert _search.strongest(lambda x: 1.0, plain, 20) == plain
