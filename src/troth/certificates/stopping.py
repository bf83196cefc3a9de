"""Decide when votes are checked, and when there are enough of them.

A check computes a lower bound on the class's probability from the votes so far. The
proofs are in docs/explanation/derivations/certify.md.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from troth.certificates import bounds, spending

_GROWTH = 1.1  # ratio of the numbers of samples at two consecutive checks
_LAST = 0.35  # share of α for the last check; the other checks share the rest evenly
_POINTS = 1000  # number of tested probabilities p, evenly spaced in Φ⁻¹(p)
_DOUBT = 0.1  # a radius less likely than this to be proven is given up
Radius = Callable[[np.ndarray], np.ndarray]
"""Lower bounds on probabilities → the radii that they prove."""


class Plan(NamedTuple):
    """Checks of the votes. All their bounds hold with probability at least 1 − α."""

    n: np.ndarray  # [k] total number of samples before each check, ascending
    alpha: float
    p: np.ndarray  # [g] tested probabilities, ascending; empty for a single check
    least: np.ndarray  # [k, g] votes with which a check proves a probability above p

    def lower(self, votes: np.ndarray, k: int) -> np.ndarray:
        """Return the lower bounds on probabilities from the votes at check k.

        A bound of 0 proves nothing.
        """
        if not len(self.p):
            return bounds.lower(votes, self.n[k], self.alpha)
        proven = np.searchsorted(self.least[k], votes, side="right")
        return np.concatenate([[0.0], self.p])[proven]


@lru_cache(maxsize=8)
def plan(
    n: int, alpha: float, tile: int, adaptive: bool, asked: tuple[float, ...] = ()
) -> Plan:
    """Plan a single check, or several at numbers of samples that grow geometrically.

    A single check uses the bound of Clopper and Pearson. Several checks test a grid of
    probabilities. All checks of one probability together have level α
    (`spending.least`), so sampling may stop after any check for any reason. Checks are
    made at multiples of a tile, and the last one at n.

    Args:
        n: Largest number of samples.
        alpha: Largest probability that any bound is wrong.
        tile: Number of samples that are drawn together.
        adaptive: Whether to plan several checks. If n ≤ `tile`, there is only one.
        asked: Probabilities to add to the grid.
    """
    if not adaptive or n <= tile:
        return Plan(np.array([n]), alpha, np.zeros(0), np.zeros((1, 0)))
    at = [tile]
    while at[-1] < n:
        at.append(min(n, math.ceil(at[-1] * _GROWTH / tile) * tile))
    share = np.append(np.linspace(0, 1 - _LAST, len(at))[1:], 1.0)
    most = float(bounds.lower(n, n, alpha))  # no more can be proven
    even = (
        special.ndtr(np.linspace(0, special.ndtri(most), _POINTS)) if most > 0.5 else []
    )
    p = np.unique([q for q in (*even, *asked) if 0.5 <= q <= most])
    each = [spending.least(q, np.array(at), alpha * share) for q in p.tolist()]
    least = np.array(each, np.int64).reshape(len(p), len(at)).T
    # Thresholds must not fall as p grows: a check that proves p proves all smaller ones
    return Plan(np.array(at), alpha, p, np.maximum.accumulate(least, axis=1))


class Question(NamedTuple):
    """What samples must decide: which radii are proven, or how large the radius is.

    If neither field is set, all samples are drawn.
    """

    radii: tuple[float, ...] = ()  # each must be proven, or given up as improbable
    tolerance: float = 0.0  # relative to the radius that all samples would prove

    @property
    def open(self) -> bool:
        """Whether sampling may stop before all samples are drawn."""
        return bool(self.radii or self.tolerance)

    def settled(self, proven: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return for each input whether the question is answered.

        Args:
            proven: radii that are proven by the samples so far.
            reach: largest radii that all samples will likely prove.
        """
        if self.radii:
            grid = np.maximum(self.radii, np.nextafter(0, 1))  # 0: it does not abstain
            open_ = (grid > proven[:, None]) & (grid <= reach[:, None])
            return np.asarray(~open_.any(axis=1))
        if self.tolerance:
            return np.asarray(proven >= (1 - self.tolerance) * reach)
        return np.zeros(len(proven), dtype=bool)

    def words(self) -> str:
        """Return the question as text for the record; "" if all samples are drawn."""
        if self.radii:
            return ";".join(map(str, self.radii))
        return f"within {self.tolerance}" if self.tolerance else ""


class Bounded(NamedTuple):
    """Lower bounds on the probabilities of m inputs, and the numbers of samples."""

    p: np.ndarray  # [m] bounds
    votes: np.ndarray  # [m] int64
    used: np.ndarray  # [m] int64 number of samples
    settled: np.ndarray  # [m] bool, whether the question is answered


def bound(
    draw: Callable[[np.ndarray, int, int], np.ndarray],
    m: int,
    plan: Plan,
    question: Question,
    radius: Radius,
) -> Bounded:
    """Compute lower bounds on the class probabilities of m inputs.

    Samples of an input are drawn until they answer the question, or all are drawn.

    Args:
        draw: Function from (indices of inputs, first sample, last sample + 1) to the
            numbers of votes in these samples.
        m: Number of inputs.
        plan: The checks.
        question: What the samples must decide.
        radius: Function from bounds to the radii that they prove.
    """
    votes, used = np.zeros(m, np.int64), np.zeros(m, np.int64)
    p, settled, before = np.zeros(m), np.zeros(m, bool), 0
    for k, n in enumerate(plan.n.tolist()):
        on = np.flatnonzero(~settled)
        if not len(on):
            break
        votes[on] += draw(on, before, n)
        used[on], before = n, n
        # with probability 1 − α, all bounds hold, so the largest one holds
        p[on] = np.maximum(p[on], plan.lower(votes[on], k))
        far = radius(reach(votes[on], k, plan))
        settled[on] = question.settled(radius(p[on]), far)
    return Bounded(p, votes, used, settled if question.open else np.ones(m, bool))


def reach(count: np.ndarray, k: int, plan: Plan) -> np.ndarray:
    """Predict, after check k, the largest bound that the last check will likely prove.

    After n of N samples, the share of votes among all N samples is unknown. Its
    distribution is approximated by a Beta distribution with the variance of
    n·N/(N − n) samples. The result is the bound from its upper quantile. With
    probability about `_DOUBT`, this is too low. Then a provable radius is given up, but
    no certificate becomes wrong.

    Args:
        count: [m] votes so far.
        k: number of the check.
        plan: the checks.
    """
    n, whole = plan.n[k], plan.n[-1]
    worth = whole / (whole - n) if n < whole else 1.0
    most = np.ceil(whole * bounds.upper(worth * count, worth * n, _DOUBT))
    return plan.lower(most, len(plan.n) - 1)
