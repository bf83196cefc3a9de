"""Sequential tests of a probability: several checks, with exact error probabilities.

A sample gives a vote with an unknown probability. Samples are drawn in batches. After
each batch, a check tests the hypothesis that this probability is p or less, and rejects
it if there are enough votes. The checks share the error probability α.

References: lan1983discrete.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

_OUTSIDE = 1e-7  # share of α for improbable sums, which are ignored
_SAFE = 1 - 1e-6  # factor on error probabilities that allows for rounding errors


def least(p: float, n: np.ndarray, spent: np.ndarray) -> np.ndarray:
    """Return the least number of votes with which each check rejects p.

    To reject p means to conclude that the probability of a vote is above p. The
    thresholds are computed for samples that vote with probability exactly p. A dynamic
    program computes, for each check, the probability of every number of votes without
    an earlier rejection. The threshold is the smallest with which this and all earlier
    checks together reject with probability at most `spent`. If the probability of a
    vote is below p, rejections are rarer.

    Args:
        p: the tested probability, between 0 and 1.
        n: [k] total number of samples drawn before each check, ascending.
        spent: [k] largest probability that this or an earlier check rejects.

    Returns:
        [k] thresholds; n + 1 if no number of votes is enough.

    >>> least(0.5, np.array([3, 6]), np.array([0.125, 0.25]))  # 1/8, then 1/8 + 3/64
    array([3, 5])
    """
    few = float(spent[-1]) * _OUTSIDE
    wide = -float(special.ndtri(min(few, 0.1)))
    mass, low, total, found = np.ones(1), 0, 0.0, []
    for whole, m in zip(spent * _SAFE, np.diff(n, prepend=0).tolist(), strict=True):
        far = wide * math.sqrt(m * p * (1 - p)) + 10
        first, last = max(0, math.floor(m * p - far)), min(m, math.ceil(m * p + far))
        if first:
            total += float(special.bdtr(first - 1, m, p))
        if last < m:
            total += float(special.bdtrc(last, m, p))
        mass, low = np.convolve(mass, _binomial(first, last, m, p)), low + first
        above = np.cumsum(mass[::-1])[::-1]  # probability of at least low, low + 1 …
        keep = int((total + above > whole).sum())
        found.append(low + keep)
        total += float(above[keep : keep + 1].sum())
        below = np.cumsum(mass[:keep])
        cut = int((below <= few).sum())
        total += float(below[cut - 1 : cut].sum())
        mass, low = mass[cut:keep], low + cut
        if not len(mass):
            mass = np.zeros(1)
    return np.asarray(np.minimum(found, n + 1))


def _binomial(first: int, last: int, m: int, p: float) -> np.ndarray:
    """Return the probabilities of first, first + 1, …, last votes in m samples."""
    j = np.arange(first, last + 1)
    chances = j * math.log(p) + (m - j) * math.log1p(-p)
    return np.asarray(np.exp(_log_choose(m)[first : last + 1] + chances))


@lru_cache(maxsize=64)
def _log_choose(m: int) -> np.ndarray:
    """Return the logarithms of the binomial coefficients of m, [m + 1]."""
    logs = special.gammaln(np.arange(m + 1) + 1)
    return np.asarray(logs[-1] - logs - logs[::-1])
