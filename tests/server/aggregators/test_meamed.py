import itertools
from fractions import Fraction

import pytest
import torch
from clients_sent import messages
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from troth.server.aggregators.meamed import meamed
from troth.server.aggregators.median import median

FLOATS = st.one_of(
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.integers(-9, 9).map(lambda steps: steps * 2.0**-149),
    st.integers(-3, 3).map(float),
)


def of(f: int, *values: float, strict: bool = True) -> float:
    column = torch.tensor(values, dtype=torch.float32)[:, None]
    return meamed(messages(column), f=f, strict=strict).item()


def by_definition(f, values):
    """In exact arithmetic; those as far as the k-th share what places are left."""
    exact = sorted(map(Fraction, values))
    n, k = len(exact), max(1, len(exact) - f)
    middle = (exact[(n - 1) // 2] + exact[n // 2]) / 2
    far = sorted(abs(v - middle) for v in exact)[k - 1]
    inner = [v for v in exact if abs(v - middle) < far]
    low = [v for v in exact if v == middle - far]
    high = [v for v in exact if v == middle + far]
    if far == 0:
        return middle
    left = k - len(inner)  # places for those at the edge, below and above alike
    options = [
        sum(inner) + i * (middle - far) + (left - i) * (middle + far)
        for i in range(left + 1)
        if i <= len(low) and left - i <= len(high)
    ]
    return (options[0] + options[-1]) / 2 / k


def distances(values):
    """From the median, from the nearest to the farthest, in exact arithmetic."""
    exact = sorted(map(Fraction, values))
    middle = (exact[(len(exact) - 1) // 2] + exact[len(exact) // 2]) / 2
    return sorted(abs(v - middle) for v in exact)


def test_by_hand():
    update = torch.tensor(
        [[1.0, 0.0], [2.0, 5.0], [4.0, 6.0], [9.0, 7.0], [-50.0, 8.0]]
    )
    # medians 2 and 6; the three closest are 1, 2, 4 and 5, 6, 7
    assert meamed(messages(update), f=2).tolist() == pytest.approx([7 / 3, 6.0])
    # even: the median of 1, 2, 4, 9 is 3; 9 is the farthest
    assert of(1, 1.0, 2.0, 4.0, 9.0) == pytest.approx(7 / 3)


def test_of_two_equally_far_half_of_each_is_taken():
    assert of(1, 1.0, 4.0, 7.0) == 4.0
    assert of(2, 0.0, 0.0, 4.0, 8.0, 8.0) == 4.0
    assert of(1, 0.0, 0.0, 4.0, 8.0, 9.0) == 3.0  # 0, 0, 4, 8: no tie
    assert of(1, -1.0, 0.0, 0.0, 0.0, 1.0) == 0.0


@settings(max_examples=200, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=9), st.integers(1, 11))
def test_as_its_definition_exactly(values, f):
    far = distances(values)
    assume(all(a == b or b - a > b / 10**15 for a, b in itertools.pairwise(far)))
    expected = float(by_definition(f, values))
    found = of(f, *values, strict=False)
    small = 1e-15 * max(map(abs, values)) + 2e-45
    assert found == pytest.approx(expected, rel=1e-6, abs=small)


def test_neither_order_nor_sign_matters_to_ties():
    values = [0.0, 1.0, 1.0, 2.0, 4.0]
    for f in (1, 2, 4):
        found = {
            of(f, *order, strict=False) for order in itertools.permutations(values)
        }
        assert len(found) == 1
        assert of(f, *(-v for v in values), strict=False) == -found.pop()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_nothing_farther_than_the_farthest_benign_counts(data):
    f = data.draw(st.integers(1, 4))
    benign = data.draw(st.lists(FLOATS, min_size=f + 1, max_size=9))
    hostile = data.draw(st.lists(FLOATS, min_size=f, max_size=f))
    column = torch.tensor([*hostile, *benign], dtype=torch.float64)[:, None]
    middle = median(messages(column)).item()
    far = max(abs(v - middle) for v in benign)
    found = meamed(messages(column), f=f).item()
    assert abs(found - middle) <= far * (1 + 1e-12)


def test_large_numbers_of_both_signs():
    assert of(1, 3e38, 3e38, -3e38) == pytest.approx(3e38, rel=1e-6)
    assert of(1, -3e38, 0.0, 3e38) == 0.0
