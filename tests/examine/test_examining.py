"""Intervals hold as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest, multinomial

from troth.examine.audit import ALPHA, _apart, _interval


@pytest.mark.parametrize(("count", "m"), [(0, 7), (3, 7), (7, 7), (41, 160)])
def test_intervals_are_those_of_clopper_and_pearson(count: int, m: int) -> None:
    expected = binomtest(count, m).proportion_ci(1 - ALPHA, method="exact")
    assert _interval(count, m, ALPHA) == pytest.approx((expected.low, expected.high))


def test_halves_are_rounded_outwards() -> None:
    low, high = _interval(3.5, 10, ALPHA)
    assert low == _interval(3, 10, ALPHA)[0] and high == _interval(4, 10, ALPHA)[1]


@pytest.mark.parametrize("p", [0.0, 0.03, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("q", [0.0, 0.1, 0.5])
def test_differences_of_independent_shares(p: float, q: float) -> None:
    """By enumeration: the chance to miss is at most ALPHA."""
    missed = 0.0
    for a in range(13):
        for b in range(8):
            low, high = _apart((a, 12), (b, 7))
            assert low <= a / 12 - b / 7 <= high
            chance = binom.pmf(a, 12, p) * binom.pmf(b, 7, q)
            missed += chance * (not low <= p - q <= high)
    assert missed <= ALPHA


@pytest.mark.parametrize("p", [(0.0, 0.0), (0.3, 0.0), (0.4, 0.3), (0.1, 0.05)])
def test_differences_of_shares_of_the_same_examples(p: tuple[float, float]) -> None:
    """Examples that only one of two models has right, and those that only the other."""
    m, missed = 12, 0.0
    law = multinomial(m, [*p, 1 - sum(p)])
    for a, b in np.ndindex(m + 1, m + 1):
        if a + b <= m:
            low, high = _apart((a, m), (b, m))
            chance = law.pmf([a, b, m - a - b])
            missed += chance * (not low <= p[0] - p[1] <= high)
    assert missed <= ALPHA
