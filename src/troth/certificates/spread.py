"""Estimate how much clients differ in the mean of a score, such as certified accuracy.

Each client's mean is known only from a few test examples. The variance that this causes
is estimated and subtracted.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

ALPHA = 0.05
"""Probability that an interval does not contain the true value."""


class Difference(NamedTuple):
    """Difference of two models' variances over clients, with a 95 % interval."""

    value: np.ndarray  # [...]
    low: np.ndarray  # [...] lower end of the interval
    high: np.ndarray  # [...] upper end


def noise(total: np.ndarray, squares: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Estimate the variance of each client's mean score, [n, …].

    A client has one score s for each of its m examples. The variance of their mean is
    the variance of a score divided by m. An unbiased estimate from the m scores is
    (Σs² − (Σs)²/m) / (m(m − 1)).

    Args:
        total: [n, …] sum Σs of each client's scores.
        squares: [n, …] sum Σs² of each client's squared scores.
        examples: [n] number of examples m; if it is 1, the result is NaN.
    """
    m = np.asarray(examples, np.float64).reshape(-1, *[1] * (np.ndim(total) - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((squares - total**2 / m) / (m * (m - 1)))


def spread(mean: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Estimate the standard deviation over clients of their true means, [...].

    The expected variance of observed means is the variance of the true means plus the
    mean of `noise`. So the mean of `noise` is subtracted from the observed variance. A
    negative difference is replaced by 0. For a single client, the result is NaN.

    Args:
        mean: [n, …] observed mean of each client.
        noise: [n, …] variance of each observed mean (see the function `noise`).

    >>> spread(np.array([0.8, 0.9]), np.array([0.001, 0.003])).round(4)
    np.float64(0.0548)
    """
    if len(mean) < 2:
        return np.full(np.shape(mean)[1:], np.nan)[()]
    variance = mean.var(axis=0, ddof=1) - noise.mean(axis=0)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))[()]


def difference(
    one: np.ndarray, one_noise: np.ndarray, two: np.ndarray, two_noise: np.ndarray
) -> Difference:
    """Estimate the variance over clients under one model minus that under another.

    The variances are the squares of `spread`, before negative values are replaced by 0.
    Both models have the same clients, and the interval is paired: a Student's t
    interval from the jackknife over clients. If both true variances are equal, the
    interval excludes 0 with probability at most 5 %. With few clients and very
    different variances, it is too narrow: with 10 clients and a ratio of 9, it covers
    the true difference with probability .89.

    Args:
        one: [n, …] mean of each client under the first model.
        one_noise: [n, …] variance of each of these means, from `noise`.
        two: [n, …] mean of the same clients under the second model.
        two_noise: [n, …] variance of each of these means.

    Returns:
        The difference and its interval, [...]; NaN for fewer than 3 clients.
    """
    n = len(one)
    if n < 3:
        return Difference(*[np.full(np.shape(one)[1:], np.nan)[()]] * 3)
    far = (one - one.mean(axis=0)) ** 2 - (two - two.mean(axis=0)) ** 2
    variance = one.var(axis=0, ddof=1) - two.var(axis=0, ddof=1)
    each = (n * far - variance) / (n - 2) - (one_noise - two_noise)
    half = stats.t.ppf(1 - ALPHA / 2, n - 1) * each.std(axis=0, ddof=1) / np.sqrt(n)
    value = each.mean(axis=0)
    return Difference(value, value - half, value + half)
