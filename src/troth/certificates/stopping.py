"""When samples are counted, and when there are enough of them.

The proofs are in docs/explanation/derivations/certify.md.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from troth.certificates import bounds

_GROWTH = 1.2  # how many times the samples of one look the next has
_LAST = 0.5  # share of α that the last look gets; the others share the rest evenly
_DOUBT = 0.1  # how likely a radius may be that is given up; no part of the guarantee


Radius = Callable[[np.ndarray], np.ndarray]
"""Lower bounds on probabilities → the radii that they prove."""


class Plan(NamedTuple):
    """Checks of the count, each with a failure probability of its own: Σα_k = α."""

    n: np.ndarray  # [k] samples drawn by then, ascending
    alpha: np.ndarray  # [k]


def plan(n: int, alpha: float, tile: int, adaptive: bool) -> Plan:
    """Plan a single check, or checks at numbers of samples that grow geometrically.

    At every check the lower bound of Clopper and Pearson fails with probability α_k, so
    that with probability 1 − α none fails: whoever stops at any of them, for whatever
    reason, has a valid bound. Checks are at multiples of a tile, the last at n; unless
    `adaptive`, there is one.
    """
    at = [n]
    if adaptive and n > tile:
        at = [tile]
        while at[-1] < n:
            at.append(min(n, math.ceil(at[-1] * _GROWTH / tile) * tile))
    shares = np.array([1.0])
    if len(at) > 1:
        shares = np.full(len(at), (1 - _LAST) / (len(at) - 1))
        shares[-1] = _LAST
    return Plan(np.array(at), alpha * shares)


class Question(NamedTuple):
    """What samples are drawn for: which radii are proven, or how far one reaches.

    Without either, all samples are drawn.
    """

    radii: tuple[float, ...] = ()  # each is to be proven, or given up
    tolerance: float = 0.0  # of the radius that all samples would prove

    @property
    def open(self) -> bool:
        """Whether anything could be settled before the end."""
        return bool(self.radii or self.tolerance)

    def settled(self, proven: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return whether further samples would leave the answer as it is, [m].

        No radius beyond `reach` will likely be proven.
        """
        if self.radii:
            grid = np.maximum(self.radii, np.nextafter(0, 1))  # 0: it does not abstain
            open_ = (grid > proven[:, None]) & (grid <= reach[:, None])
            return np.asarray(~open_.any(axis=1))
        if self.tolerance:
            return np.asarray(proven >= (1 - self.tolerance) * reach)
        return np.zeros(len(proven), dtype=bool)

    def words(self) -> str:
        """Return the question for the record: "" where all samples are drawn."""
        if self.radii:
            return ";".join(map(str, self.radii))
        return f"within {self.tolerance}" if self.tolerance else ""


class Bounded(NamedTuple):
    """Lower bounds on probabilities, and the samples they took."""

    p: np.ndarray  # [m]
    votes: np.ndarray  # [m] int64
    used: np.ndarray  # [m] int64 samples
    settled: np.ndarray  # [m] bool


def bound(
    draw: Callable[[np.ndarray, int, int], np.ndarray],
    m: int,
    plan: Plan,
    question: Question,
    radius: Radius,
) -> Bounded:
    """Bound the probabilities of m classes from below, each until it is settled.

    `draw` takes indices of the m, a first and a last sample, and returns their votes.
    """
    votes, used = np.zeros(m, np.int64), np.zeros(m, np.int64)
    p, settled, before = np.zeros(m), np.zeros(m, bool), 0
    for k, n in enumerate(plan.n.tolist()):
        on = np.flatnonzero(~settled)
        if not len(on):
            break
        votes[on] += draw(on, before, n)
        used[on], before = n, n
        # none fails with probability 1 − α, so neither does the largest of them
        p[on] = np.maximum(p[on], bounds.lower(votes[on], n, plan.alpha[k]))
        far = radius(reach(votes[on], k, plan))
        settled[on] = question.settled(radius(p[on]), far)
    return Bounded(p, votes, used, settled if question.open else np.ones(m, bool))


def reach(count: np.ndarray, k: int, looks: Plan) -> np.ndarray:
    """Return the largest bound that the last check will likely prove, after check k.

    The share of votes of all samples is about Beta-distributed around the present
    share, as if this were of n·N/(N − n) samples: the fewer remain, the less it will
    move. Its likely largest value would prove the reach. Where that errs (with
    probability `_DOUBT`, about) a provable radius is given up; nothing is proven that
    should not be.
    """
    n, whole, alpha = looks.n[k], looks.n[-1], looks.alpha[-1]
    worth = whole / (whole - n) if n < whole else 1.0  # at the end: of more samples yet
    most = np.ceil(whole * bounds.upper(worth * count, worth * n, _DOUBT))
    return bounds.lower(most, whole, alpha)
