"""How much clients differ, apart from the chance of their test examples."""

from typing import NamedTuple

import numpy as np
from scipy import stats

ALPHA = 0.05
"""Probability that an interval misses the truth."""


class Difference(NamedTuple):
    """Difference of two models' variances over clients, with an interval for it."""

    value: np.ndarray  # [...]
    low: np.ndarray
    high: np.ndarray


def noise(total: np.ndarray, squares: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Estimate the variance of clients' means that is due to few examples, [n, …].

    The variance of a mean of m scores is their variance / m. The estimate from the same
    m scores, unbiased, is (Σs² − (Σs)²/m) / (m(m − 1)).

    Args:
        total: [n, …] sum of each client's scores.
        squares: [n, …] sum of their squares.
        examples: [n] number of examples m; with one, the result is NaN.
    """
    m = np.asarray(examples, np.float64).reshape(-1, *[1] * (np.ndim(total) - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((squares - total**2 / m) / (m * (m - 1)))


def spread(mean: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Estimate the standard deviation over clients of their true means, [...].

    The variance of observed means is that of the true means plus the mean `noise`,
    which is subtracted; the result is 0 if it is larger. NaN for a single client.

    Args:
        mean: [n, …] means of each client's test examples.
        noise: [n, …] variance of each mean: `noise`.

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
    """Estimate how much the variance over clients is larger for one of two models.

    The variances are those of `spread`, before the square root. Both models are those
    of the same clients, and the interval is paired: it is that of Student's t from the
    jackknife over clients. If both variances are equal, it excludes 0 with probability
    5 % at most. With few clients and very different variances it is too narrow: with 10
    clients and a ratio of 9 it covers the difference with probability .89.

    Args:
        one: [n, …] means of each client under the first model.
        one_noise: [n, …] their `noise`.
        two: [n, …] means of the same clients under the second model.
        two_noise: [n, …] their `noise`.

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
