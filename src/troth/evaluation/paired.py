"""Test whether one method is better than another for the clients of a federation.

References: banerjee1960approximate, holm1979simple.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from troth.types import Refusal

NAN = float("nan")
LEVEL = 0.05
"""Significance level: differences with a lower p-value are called significant."""
_Parts = list[tuple[float, int]]
"""Estimated variances of a mean difference, with their degrees of freedom."""


class Paired(NamedTuple):
    """The second of two methods compared with the first, client by client."""

    mean_difference: float  # mean over seeds of the mean over clients
    low: float  # ends of its 95 % interval
    high: float
    p_value: float  # two-sided
    better: int  # clients for which the second method is better, on average over seeds
    worse: int
    equal: int
    n: int  # clients with a value of both methods
    seeds: int  # with one seed, the interval is that of one pair of trained models


def interval(values: np.ndarray | Sequence[float]) -> tuple[float, float]:
    """Return the mean of values and the half width of its 95 % Student-t interval.

    With s² = Σ(x − x̄)²/(n−1), the half width is t_{0.975, n−1} · s/√n. The values
    should be independent and about normal, as results over seeds are. A NaN is not left
    out, because a seed that failed is not a result.

    Args:
        values: [n] one value per seed.

    Returns:
        Mean and half width. The half width is NaN for a single value.

    Example:
        >>> mean, half = interval([0.70, 0.72, 0.74])
        >>> f"{mean:.2f} ± {half:.2f}"
        '0.72 ± 0.05'
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return NAN, NAN
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(x.mean())
        if x.size == 1:
            return mean, NAN
        error = float(x.std(ddof=1)) / float(np.sqrt(x.size))
    return mean, float(special.stdtrit(x.size - 1, 0.975)) * error


def paired(a: np.ndarray, b: np.ndarray, higher_is_better: bool = True) -> Paired:
    """Test whether the second of two methods is better, over clients and seeds.

    The difference of client c under seed s is d_sc = μ + a_s + b_c + e_sc, with random
    effects of the seed (initial model, order of batches, cohorts), of the client, and
    of both together. The tested hypothesis is μ = 0. The estimate of μ is the mean of
    the seed means d̄_s. Let V_S = var(d̄_s)/S for S seeds, and V_C = var(d̄_c)/C for
    the client means d̄_c of C clients. The 95 % interval has the half width
    √(t²_{S−1}·V_S + t²_{C−1}·V_C), with the 97.5 % quantiles of Student's t. The
    p-value is the level at which the interval would end at 0.

    With **one seed**, only V_C is known. Then the result holds for the two trained
    models and clients like these. It does not show that the methods differ, because
    another seed of the same method may differ as much.

    Args:
        a: [n] one value per client under the first method, or [seeds, n]. NaN: the
            client has no value (for example because it is malicious).
        b: values of the same clients and seeds under the second method.
        higher_is_better: False for losses and errors; decides `better` and `worse`.

    Returns:
        The comparison. If all differences are equal (and not 0) or one is infinite,
        there is no interval, and the p-value is from a sign test over seeds (with one
        seed, over clients).

    Guarantee: for normal effects, a pair of equal methods is called different with a
        probability of at most 5 %, for any number of seeds and clients and any size of
        the effects (Banerjee's inequality for a sum of variances). On pairs of seeds of
        the same method among the committed results, the rate is 1 %. A test over
        clients alone has up to 35 % there.

    Example:
        >>> first = np.array([[0.70, 0.80, 0.60], [0.72, 0.79, 0.61]])  # 2 seeds
        >>> found = paired(first, first + [[0.10, 0.11, 0.09], [0.11, 0.12, 0.10]])
        >>> round(found.mean_difference, 3), found.better, found.seeds
        (0.105, 3, 2)
        >>> f"{found.low:.2f} to {found.high:.2f}"
        '0.04 to 0.17'
    """
    a, b = (np.atleast_2d(np.asarray(x, dtype=np.float64)) for x in (a, b))
    if a.ndim != 2 or a.shape != b.shape:
        raise Refusal(
            f"values of shape {list(a.shape)} and {list(b.shape)} cannot be paired; "
            "give one value per client, of the same clients and seeds, in both"
        )
    with np.errstate(invalid="ignore"):
        difference = np.where(a == b, 0.0, b - a)  # two infinite losses are equal
    both = ~np.isnan(difference)
    difference = difference[both.any(axis=1)][:, both.any(axis=0)]
    seeds, n = difference.shape
    if not difference.size:
        return Paired(NAN, NAN, NAN, NAN, 0, 0, 0, 0, 0)
    with np.errstate(invalid="ignore"):
        each, over = np.nanmean(difference, axis=0), np.nanmean(difference, axis=1)
        mean = float(over.mean())
        parts = _variances(over, each)
    units = over if seeds > 1 else each
    if not units.any():
        half, p_value = (0.0 if parts else NAN), 1.0
    elif 1e-12 * abs(mean) < math.hypot(*(math.sqrt(v) for v, _ in parts)) < math.inf:
        half, p_value = _half(parts, LEVEL), _level(abs(mean), parts)
    else:  # infinite, or the same for all up to rounding
        half, p_value = NAN, _sign_test(units)
    up, down = int((each > 0).sum()), int((each < 0).sum())
    better, worse = (up, down) if higher_is_better else (down, up)
    ends = mean - half, mean + half
    return Paired(mean, *ends, p_value, better, worse, n - up - down, n, seeds)


def _variances(over: np.ndarray, each: np.ndarray) -> _Parts:
    """Return the parts of the variance: of seed means, and of client means."""
    known = [x for x in (over, each) if len(x) > 1]
    return [(float(x.var(ddof=1)) / len(x), len(x) - 1) for x in known]


def _half(parts: _Parts, level: float) -> float:
    """Return the half width of the interval with coverage 1 − level."""
    ends = (math.sqrt(v) * special.stdtrit(f, level / 2) for v, f in parts)
    return math.hypot(*ends)


def _level(mean: float, parts: _Parts) -> float:
    """Return the p-value: the level at which the interval's half width is |mean|."""
    if mean == 0:
        return 1.0
    least = 1e-100
    if _half(parts, least) <= mean:
        return 0.0
    from scipy import optimize  # takes a fifth of a second to load

    root = optimize.brentq(
        lambda log: _half(parts, math.exp(log)) - mean, math.log(least), 0.0
    )
    return math.exp(root)


def _sign_test(units: np.ndarray) -> float:
    """Return the two-sided p-value of the numbers of positive and negative values."""
    from scipy import stats  # takes half a second to load

    up, down = int((units > 0).sum()), int((units < 0).sum())
    return float(stats.binomtest(up, up + down).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for the number of comparisons, by Holm's method.

    The k-th smallest of m p-values is multiplied by m − k + 1. If a smaller p-value has
    a larger corrected value, that value is used instead (Holm 1979).

    Args:
        p_values: one per comparison. NaN stays NaN and does not count.

    Returns:
        Corrected p-values in the same order, at most 1.

    Guarantee: if all corrected p-values below α are called significant, the probability
        of at least one false one is at most α, for any dependence between the tests.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[: int((~np.isnan(p)).sum())]  # NaN is sorted to the end
    corrected = np.full(p.shape, NAN)
    factors = len(order) - np.arange(len(order))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return [float(value) for value in corrected]
