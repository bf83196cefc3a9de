"""Bounds on class probabilities from counts of votes, and radii from these bounds.

A vote is the predicted class of one noisy copy of an input.

References: cohen2019certified, alfarra2022certified, clopper1934use.
"""

from decimal import ROUND_FLOOR, Decimal
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

Law = Literal["normal", "uniform"]
"""Distribution of the noise: N(0, σ²I), or uniform on (−σ, σ)."""


def lower(count: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> np.ndarray:
    """Compute the one-sided lower bound of Clopper and Pearson on a probability.

    With probability at most α, the bound is wrong: it exceeds the true probability of
    a success. If there are no successes, the bound is 0.

    Args:
        count: number of successes.
        n: number of independent trials.
        alpha: largest probability α that the bound is wrong.

    Returns:
        The bound, in the shape to which the arguments broadcast.

    >>> lower(100, 100, 0.001).round(4)
    np.float64(0.9333)
    """
    s = np.asarray(count, dtype=np.float64)
    some = np.maximum(s, 1)
    return np.where(s > 0, stats.beta.ppf(alpha, some, np.asarray(n) - some + 1), 0.0)


def upper(count: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> np.ndarray:
    """Compute the one-sided upper bound of Clopper and Pearson on a probability.

    It is 1 minus the lower bound on the probability of a failure.
    """
    return 1.0 - lower(np.asarray(n) - np.asarray(count), n, alpha)


def radius(p: ArrayLike, sigma: float, law: Law) -> np.ndarray:
    """Compute the radius that a lower bound p on the top class's probability proves.

    For normal noise, the radius is σΦ⁻¹(p) in the ℓ2 norm, where Φ is the standard
    normal distribution function (Eq. 2 of Alfarra et al., 2022). For uniform noise, it
    is σ(2p − 1) in the ℓ1 norm (their Corollary 1). Both assume the worst case, in
    which the second class has probability 1 − p.

    Args:
        p: lower bounds. If p ≤ ½, the radius is 0.
        sigma: size σ of the noise.
        law: distribution of the noise.

    Returns:
        The radii, in the shape of `p`.

    >>> radius(0.975, 0.5, "normal").round(3), radius(0.75, 0.5, "uniform")
    (np.float64(0.98), np.float64(0.25))
    """
    p = np.asarray(p, dtype=np.float64)
    found = special.ndtri(p) if law == "normal" else 2 * p - 1
    return np.where(p > 0.5, sigma * found, 0.0)


def down(value: float, digits: int = 3) -> str:
    """Format a radius, rounded down, because a larger radius would not be proven."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR))
