import itertools
from fractions import Fraction

import pytest
import torch
from clients_sent import FLOATS, column
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from troth.server.aggregators.meamed import meamed
from troth.server.aggregators.median import median


def of(f, *values, **options):
    return meamed(column(*values), f=f, **options).item()


def middle_and_distances(values):
    """The median, and the distances from it in order, in exact arithmetic."""
    exact = sorted(map(Fraction, values))
    middle = (exact[(len(exact) - 1) // 2] + exact[len(exact) // 2]) / 2
    return middle, sorted(abs(v - middle) for v in exact)


def by_definition(f, values):
    """In exact arithmetic; those as far as the k-th share what places are left."""
    exact, k = [*map(Fraction, values)], max(1, len(values) - f)
    middle, distances = middle_and_distances(values)
    far = distances[k - 1]
    if far == 0:
        return middle
    inner = [v for v in exact if abs(v - middle) < far]
    low, high = exact.count(middle - far), exact.count(middle + far)
    left = k - len(inner)  # places for those at the edge, below and above alike
    options = [
        sum(inner) + i * (middle - far) + (left - i) * (middle + far)
        for i in range(left + 1)
        if i <= low and left - i <= high
    ]
    return (options[0] + options[-1]) / 2 / k


def test_large_numbers_of_both_signs():
    assert of(1, 3e38, 3e38, -3e38) == pytest.approx(3e38, rel=1e-6)
    assert of(1, -3e38, 0.0, 3e38) == 0.0


@settings(max_examples=100, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=9), st.integers(1, 11))
def test_as_its_definition_exactly(values, f):
    _, far = middle_and_distances(values)
    assume(all(a == b or b - a > b / 10**15 for a, b in itertools.pairwise(far)))
    expected = float(by_definition(f, values))
    small = 1e-15 * max(map(abs, values)) + 2e-45
    found = of(f, *values, strict=False)
    assert found == pytest.approx(expected, rel=1e-6, abs=small)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.data())
def test_nothing_farther_than_the_farthest_benign_counts(f, data):
    benign = data.draw(st.lists(FLOATS, min_size=f + 1, max_size=9))
    hostile = data.draw(st.lists(FLOATS, min_size=f, max_size=f))
    sent = column(*hostile, *benign, dtype=torch.float64)
    middle = median(sent).item()
    far = max(abs(v - middle) for v in benign)
    assert abs(meamed(sent, f=f).item() - middle) <= far * (1 + 1e-12)
