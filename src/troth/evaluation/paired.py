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
"""Significance level: a difference with a smaller p-value is called significant."""
_Parts = list[tuple[float, int]]
"""Estimated variances of a mean difference, with their degrees of freedom."""


class Paired(NamedTuple):
    """Comparison of a second method with a first one, over clients and seeds."""

    mean_difference: float  # second − first: mean over seeds of the mean over clients
    low: float  # lower end of its 95 % interval
    high: float  # upper end of its 95 % interval
    p_value: float  # two-sided
    better: int  # number of clients for which the second method is better
    worse: int
    equal: int
    n: int  # number of clients with values of both methods
    seeds: int  # with one seed, the interval is about these two trained models only


def interval(values: np.ndarray | Sequence[float]) -> tuple[float, float]:
    """Return the mean of values and the half width of its 95 % Student-t interval.

    With s² = Σ(x − x̄)²/(n−1), the half width is t_{0.975, n−1} · s/√n. The values
    should be independent and approximately normal, like results of several seeds. NaN
    is not left out: if a value is NaN, so is the result.

    Args:
        values: [n] values, one per seed.

    Returns:
        Mean and half width. For a single value, the half width is NaN.

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

    The model for the difference of client c with seed s is d_sc = μ + a_s + b_c + e_sc,
    with random effects a_s of the seed (initial model, order of batches, cohorts), b_c
    of the client, and e_sc of both. The null hypothesis is μ = 0. The estimate of μ is
    the mean of the means d̄_s over clients. Let V_S = var(d̄_s)/S for S seeds. Let V_C
    = var(d̄_c)/C for the means d̄_c over seeds of C clients. The 95 % interval has the
    half width √(t²_{S−1}·V_S + t²_{C−1}·V_C), where t_f is the 97.5 % quantile of
    Student's distribution with f degrees of freedom. The p-value is the level with
    which the interval would end at 0.

    With **one seed**, only V_C is known. The result is then about the two trained
    models. It does not show that the methods differ, because two seeds of the same
    method may differ by as much.

    Args:
        a: [n] values of the first method, one per client, or [seeds, n]. NaN means that
            the client has no value (for example because it is malicious).
        b: Values of the second method, for the same clients and seeds.
        higher_is_better: False for losses and errors. It decides which clients count as
            `better` and `worse`.

    Returns:
        The comparison. If all differences are equal (and not 0) or one is infinite, the
        ends of the interval are NaN, and the p-value is from a sign test over seeds
        (with one seed, over clients).

    Guarantee: if the effects are normal and the methods are equal, the probability of a
    p-value below 5 % is at most 5 %, for any number of seeds and clients and any size
    of the effects (Banerjee's inequality for a sum of variances). For pairs of seeds of
    the same method among the committed results, the rate is 1 %; for a test over
    clients alone, it is up to 35 %.

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
    """Return the variances of the means over clients and over seeds, each if known."""
    known = [x for x in (over, each) if len(x) > 1]
    return [(float(x.var(ddof=1)) / len(x), len(x) - 1) for x in known]


def _half(parts: _Parts, level: float) -> float:
    """Return the half width of the interval with confidence 1 − level."""
    ends = (math.sqrt(v) * special.stdtrit(f, level / 2) for v, f in parts)
    return math.hypot(*ends)


def _level(mean: float, parts: _Parts) -> float:
    """Return the p-value: the level at which the interval ends at 0."""
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
    """Return the two-sided p-value of the sign test of values."""
    from scipy import stats  # takes half a second to load

    up, down = int((units > 0).sum()), int((units < 0).sum())
    return float(stats.binomtest(up, up + down).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for the number of comparisons, by Holm's method.

    The k-th smallest of m p-values is multiplied by m − k + 1. If a smaller p-value has
    a larger result, this result is used instead (Holm 1979).

    Args:
        p_values: One p-value per comparison. NaN stays NaN and is not counted in m.

    Returns:
        Corrected p-values in the same order, at most 1.

    Guarantee: if differences with corrected p-values below α are called significant,
    the probability of one or more false positives is at most α, for any dependence
    between the tests.

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
