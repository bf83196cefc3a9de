"""What holds of every metric in the folder."""

import json

import numpy as np
import pytest

from troth import lookup

NAMES = lookup.names("metric")
SPREADS = {"std", "jain"}  # all others are an average or quantiles


def measure(name, values, size=None, up=True):
    given = lookup.check("metric", name, {})
    size = np.ones(len(values)) if size is None else size
    function = lookup.find("metric", name)
    number = lookup.call(function, given, values=values, size=size, higher_is_better=up)
    json.dumps(number)  # a plain number or a list of them
    return np.atleast_1d(number)


EACH = pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 57, 1000])


def clients(n):
    draw = np.random.default_rng(n)
    return draw.random(n), draw.integers(1, 50, n)


def test_all_are_found():
    expected = {"mean", "std", "weighted", "worst10", "best10", "deciles", "jain"}
    assert expected <= set(NAMES)


@EACH
@pytest.mark.parametrize("up", [True, False])
def test_laws_of_every_metric(n, up):
    """No order of clients, none without a value; between the extremes; shifts."""
    values, size = clients(n)
    kept, draw = values.copy(), np.random.default_rng(1)
    order, at = draw.permutation(n), draw.integers(0, n + 1, 5)
    same = {"rtol": 1e-12, "atol": 1e-15}
    for name in NAMES:
        found = measure(name, values, size, up)
        for other in (
            measure(name, values[order], size[order], up),
            measure(name, np.insert(values, at, np.nan), np.insert(size, at, 9), up),
        ):
            np.testing.assert_allclose(other, found, **same, err_msg=name)
        if name not in SPREADS:
            assert (found >= values.min() - 1e-12).all(), name
            assert (found <= values.max() + 1e-12).all(), name
            moved = measure(name, values + 3, size, up)
            np.testing.assert_allclose(moved, found + 3, rtol=1e-12, err_msg=name)
        np.testing.assert_array_equal(values, kept, err_msg=name)


def test_odd_vectors_of_every_metric():
    """Nothing gives NaN, infinite losses no warning; any type of number will do."""
    for name in NAMES:
        for nothing in ([], [np.nan], [np.nan, np.nan]):
            assert np.isnan(measure(name, np.array(nothing, dtype=float))).all(), name
        for up in (True, False):
            measure(name, np.array([1.0, np.inf, 2.0]), up=up)
            measure(name, np.array([-np.inf, np.inf]), up=up)
        twelve = measure(name, np.arange(12.0))
        for dtype in (np.float32, np.int64):
            found = measure(name, np.arange(12).astype(dtype))
            np.testing.assert_array_equal(found, twelve, err_msg=name)


@EACH
def test_spreads_and_tails(n):
    values, _ = clients(n)
    assert 0 <= measure("std", values)[0] <= (values.max() - values.min()) / 2 + 1e-12
    assert 1 / n - 1e-12 <= measure("jain", values)[0] <= 1 + 1e-12
    worst, mean, best = (measure(k, values) for k in ("worst10", "mean", "best10"))
    assert worst <= mean + 1e-12
    assert mean <= best + 1e-12
    assert measure("worst10", values, up=False) == best
    assert measure("best10", values, up=False) == worst
