"""Thresholds of several checks, against all sequences of votes."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from troth.certificates import spending


def rejected(p, n, thresholds):
    """P(the first rejection is at each check), over all 2ⁿ sequences of votes."""
    found = np.zeros(len(n))
    for votes in itertools.product((0, 1), repeat=n[-1]):
        counts = np.cumsum(votes)[np.array(n) - 1]
        over = np.flatnonzero(counts >= thresholds)
        if len(over):
            s = sum(votes)
            found[over[0]] += p**s * (1 - p) ** (n[-1] - s)
    return found


@pytest.mark.parametrize("p", [0.5, 0.6, 0.83])
@pytest.mark.parametrize("n", [[12], [4, 8, 12], [3, 5, 9, 13]])
@pytest.mark.parametrize("alpha", [0.3, 0.05])
def test_all_sequences(p, n, alpha):
    """No check spends more than it may, and one vote less would."""
    spent = alpha * np.arange(1, len(n) + 1) / len(n)
    found = spending.least(p, np.array(n), spent)
    assert (found <= np.array(n) + 1).all()
    assert (np.cumsum(rejected(p, n, found)) <= spent).all()
    for k in range(len(n)):
        lower = found.copy()
        lower[k] -= 1
        assert np.cumsum(rejected(p, n, lower))[k] > spent[k] * (1 - 1e-5)


def test_a_single_check_is_the_binomial_test():
    for p in (0.5, 0.9, 0.999):
        (found,) = spending.least(p, np.array([1000]), np.array([0.01]))
        assert found == stats.binom.isf(0.01, 1000, p) + 1


def test_many_samples():
    """By simulation: 100,000 samples, and 30 checks that share α evenly."""
    n = np.unique((1000 * 1.17 ** np.arange(30)).astype(int))
    spent = 0.05 * np.arange(1, len(n) + 1) / len(n)
    found = spending.least(0.8, n, spent)
    random = np.random.default_rng(0)
    votes = random.binomial(np.diff(n, prepend=0), 0.8, (20_000, len(n))).cumsum(axis=1)
    share = np.maximum.accumulate(votes >= found, axis=1).mean(axis=0)
    assert (np.abs(share - spent) < 5 * math.sqrt(0.05 / 20_000)).all()
    assert share[-1] > 0.045


def test_nothing_is_proven_without_enough_samples():
    found = spending.least(0.9, np.array([2, 4, 80]), np.array([0.01, 0.02, 0.03]))
    assert found[:2].tolist() == [3, 5] and found[2] <= 80
