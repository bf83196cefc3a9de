"""The two attacks that go as far as a row may go and still look benign."""

import pytest
import torch
from clients_sent import drawn, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.attacks.min_max import min_max
from troth.server.attacks.min_sum import min_sum


def widest(rows, point):
    """No row is farther from it than two rows are from each other."""
    most = (rows[:, None] - rows).norm(dim=2).max()
    return bool((rows - point).norm(dim=1).max() <= most)


def summed(rows, point):
    """Its squared distances sum to no more than those of some row."""
    most = max(float((rows - row).square().sum()) for row in rows)
    return float((rows - point).square().sum()) <= most


FITS = {min_max: widest, min_sum: summed}
BOTH = pytest.mark.parametrize("attack", FITS)
DIRECTIONS = ["std", "unit", "sign"]
EACH = pytest.mark.parametrize("direction", DIRECTIONS)


def by_bisection(attack, rows, direction):
    """The definition, word for word."""
    mean, fits = rows.mean(dim=0), FITS[attack]
    p = {
        "std": -rows.std(dim=0, correction=0),
        "unit": -mean / mean.norm(),
        "sign": -mean.sign(),
    }[direction]
    low, high = 0.0, 1.0
    while fits(rows, mean + high * p):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        inside = fits(rows, mean + middle * p)
        low, high = (middle, high) if inside else (low, middle)
    return mean + low * p


def sent(attack, rows, direction):
    update = torch.cat([rows, torch.zeros_like(rows[:1])])
    hostile = torch.arange(len(update)) == len(rows)
    return attack(messages(update), hostile, direction=direction).update[-1]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([*FITS]),
    st.integers(2, 9),
    st.integers(1, 6),
    st.floats(-3, 3),
    st.sampled_from(DIRECTIONS),
    st.integers(0, 10**6),
)
def test_equals_bisection_of_the_definition(attack, k, d, shift, direction, seed):
    rows = drawn(k, d, seed) + shift
    found = sent(attack, rows, direction)
    torch.testing.assert_close(found, by_bisection(attack, rows, direction))


@BOTH
@EACH
def test_rows_that_hardly_differ(attack, direction):
    """Distances of 1e-6 around 1: a formula of squares of the rows would be noise."""
    rows = drawn(40, 30) * 1e-6 + 1
    found = sent(attack, rows, direction) - 1
    expected = by_bisection(attack, rows, direction) - 1
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-14)


@BOTH
@EACH
def test_without_a_way_or_a_spread_it_is_the_mean(attack, direction):
    for value in (0.0, 0.1, -3e38):
        rows = torch.full((5, 3), value)
        assert torch.equal(sent(attack, rows, direction), rows[0])
    if direction != "std":
        rows = torch.tensor([[1.0, -2.0], [-1.0, 2.0]])
        assert sent(attack, rows, direction).tolist() == [0.0, 0.0]
