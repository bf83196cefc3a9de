"""Bounds on probabilities from counts of votes, and the radii that they prove.

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

    The bound exceeds the true probability of a success with probability at most α. It
    is 0 without a success.

    Args:
        count: successes.
        n: independent trials.
        alpha: probability α that the bound is wrong.

    >>> lower(100, 100, 0.001).round(4)
    np.float64(0.9333)
    """
    s = np.asarray(count, dtype=np.float64)
    some = np.maximum(s, 1)
    return np.where(s > 0, stats.beta.ppf(alpha, some, np.asarray(n) - some + 1), 0.0)


def upper(count: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> np.ndarray:
    """Compute the one-sided upper bound: 1 minus the lower bound on failures."""
    return 1.0 - lower(np.asarray(n) - np.asarray(count), n, alpha)


def radius(p: ArrayLike, sigma: float, law: Law) -> np.ndarray:
    """Compute the radius that a lower bound on the top class's probability proves.

    Eq. 2 and Corollary 1 with p_B = 1 − p_A: ½σ(Φ⁻¹(p_A) − Φ⁻¹(p_B)) = σΦ⁻¹(p) in the
    ℓ2 norm for normal noise; σ(p_A − p_B) = σ(2p − 1) in the ℓ1 norm for uniform noise.

    Args:
        p: lower bounds; at ½ and below the radius is 0.
        sigma: size σ of the noise.
        law: distribution of the noise.

    >>> radius(0.975, 0.5, "normal").round(3), radius(0.75, 0.5, "uniform")
    (np.float64(0.98), np.float64(0.25))
    """
    p = np.asarray(p, dtype=np.float64)
    found = special.ndtri(p) if law == "normal" else 2 * p - 1
    return np.where(p > 0.5, sigma * found, 0.0)


def down(value: float, digits: int = 3) -> str:
    """Format a radius, rounded down, so that it is not above what was proven."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR))
