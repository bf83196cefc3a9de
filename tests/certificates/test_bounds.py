"""Bounds are checked exactly, by summing over all counts: nothing here is random."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from troth.certificates import bounds


@pytest.mark.parametrize("n", [1, 7, 100, 1000])
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3])
def test_the_bound_fails_with_probability_alpha_at_most(n, alpha):
    counts = np.arange(n + 1)
    low, high = bounds.lower(counts, n, alpha), bounds.upper(counts, n, alpha)
    failing = []
    for p in np.linspace(0.002, 0.998, 250):
        chance = stats.binom.pmf(counts, n, p)
        failing.append(chance[low > p].sum())
        assert chance[high < p].sum() <= alpha + 1e-12
    assert max(failing) <= alpha + 1e-12
    if n > 1:
        assert max(failing) > 0.7 * alpha  # and it is no looser than it must be


@given(
    st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.floats(1e-6, 0.4),
)
def test_it_is_the_published_one(counted, alpha):
    """Against scipy's own interval of Clopper and Pearson, and Eq. 2."""
    count, n = counted
    test = stats.binomtest(count, n)
    known = test.proportion_ci(confidence_level=1 - 2 * alpha, method="exact").low
    found = float(bounds.lower(count, n, alpha))
    assert found == pytest.approx(known, rel=1e-9, abs=1e-12)
    wide = 0.25 * (stats.norm.ppf(found) - stats.norm.ppf(1 - found)) / 2
    expected = wide if found > 0.5 else 0.0
    radius = float(bounds.radius(found, 0.25, "normal"))
    assert radius == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_largest_radius_of_the_paper():
    """All of 100,000 votes: 3.81σ for normal noise (PROTOCOLS, 3.4)."""
    p = bounds.lower(100_000, 100_000, 0.001)
    assert float(p) == pytest.approx(0.001 ** (1 / 100_000), rel=1e-12)
    assert float(bounds.radius(p, 1.0, "normal")) == pytest.approx(3.81, abs=0.005)


def test_extremes():
    assert bounds.lower(0, 5, 0.1) == 0 and bounds.upper(5, 5, 0.1) == 1
    p = np.array([0.0, 0.5, 0.5 + 1e-12])
    assert (bounds.radius(p, 2.0, "normal")[:2] == 0).all()
    assert bounds.radius(p, 2.0, "normal")[2] > 0
    assert bounds.radius(0.75, 2.0, "uniform") == 1.0
    assert bounds.radius(np.zeros((2, 3)), 1.0, "normal").shape == (2, 3)


@given(st.floats(0, 100), st.integers(0, 6))
def test_what_is_printed_was_proven(value, digits):
    text = bounds.down(value, digits)
    assert Decimal(text) <= Decimal(value)
    assert Decimal(value) - Decimal(text) < Decimal(1).scaleb(-digits)


def test_printed_radii_by_hand():
    assert bounds.down(0.9999) == "0.999" and bounds.down(0.1) == "0.100"
    assert bounds.down(0.3) == "0.299"  # the number nearest to 0.3 lies below it
    assert bounds.down(0.0) == "0.000"
