r"""Limits of resilience to malicious participants: for any algorithm, and in one run.

References: farhadkhani2022equivalence.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from troth.types import Refusal


class Resilience(NamedTuple):
    """The values of both sides of Eq. (4) in one run."""

    heterogeneity: float  # max ‖θ†_h − θ†_h'‖ over pairs of honest participants
    distance: float  # ‖ρ − mean of θ†_h‖
    shown: float  # the smallest C for which Eq. (4) holds in this run, with ε = 0
    limit: float  # `resilience_limit`: no algorithm can guarantee a smaller C


def resilience_limit(F: int, N: int) -> float:
    """Return the smallest C for which (F, N, C)-Byzantine learning may be possible.

    Let θ†_h be the model that honest participant h prefers, and ρ the global model of
    any algorithm, with any defense against poisoned data. (F, N, C)-Byzantine learning
    means ‖ρ − mean of θ†_h‖² ≤ C² max ‖θ†_h − θ†_h'‖² + ε (Eq. 4) in all federations of
    N participants with F malicious ones. No algorithm has this property if F ≥ N/2
    (Corollary 1) or if C < F/(N − F) (Corollary 2).

    Guarantee: a lower bound. The paper does not state that some algorithm attains it.

    Args:
        F: number of malicious participants; 0 gives 0.
        N: number of participants, with the malicious ones.

    Returns:
        F/(N − F), which is below 1, or ∞ if F ≥ N/2, where every C is ruled out.

    Example:
        >>> resilience_limit(F=2, N=10), resilience_limit(F=5, N=10)
        (0.25, inf)
    """
    if F % 1 != 0 or N % 1 != 0 or not 0 <= F <= N or N < 1:
        raise Refusal(
            f"F = {F} malicious of N = {N} participants must be whole numbers, "
            "0 ≤ F ≤ N and N at least 1"
        )
    return math.inf if 2 * F >= N else F / (N - F)


def resilience(preferred: np.ndarray, rho: np.ndarray, F: int) -> Resilience:
    """Compare a run's measured distance with the bound of Eq. (4).

    One run is one attack on one federation. So `shown` is a lower bound of the C that
    the run's algorithm can guarantee. `shown` may be below `limit`, because `limit` is
    about the worst federation. If `shown` is above `limit`, the theory does not rule
    out that another algorithm does better on this federation.

    Args:
        preferred: θ†_h [H, d], one row per honest participant: the model that it would
            learn from an unlimited number of its own examples.
        rho: ρ [d], the global model of the run. If it is not finite, the distance is ∞.
        F: number of malicious participants; N is H + F.

    Returns:
        All four numbers. If all honest participants prefer the same model, C multiplies
        0 in Eq. (4). Then `shown` is 0 if ρ is that model, and otherwise ∞.

    Example:
        >>> theta = np.array([[0.0, 0.0], [2.0, 0.0]])
        >>> found = resilience(theta, rho=np.array([1.0, 1.0]), F=1)
        >>> found.heterogeneity, found.distance, found.shown, found.limit
        (2.0, 1.0, 0.5, 0.5)
    """
    theta, at = np.asarray(preferred, np.float64), np.asarray(rho, np.float64)
    if theta.ndim != 2 or len(theta) == 0 or at.shape != theta.shape[1:]:
        raise Refusal(
            f"preferred models of shape {list(theta.shape)} and a global model of "
            f"shape {list(at.shape)} do not go together; they must be [H, d] with H "
            "at least 1, and [d]"
        )
    if not np.isfinite(theta).all():
        raise Refusal("the preferred models hold NaN or infinity; they must be finite")
    limit = resilience_limit(F, len(theta) + F)
    apart = float(pdist(theta).max()) if len(theta) > 1 else 0.0
    far = float(np.linalg.norm(at - theta.mean(axis=0)))
    far = far if math.isfinite(far) else math.inf
    shown = far / apart if apart else (0.0 if far == 0 else math.inf)
    return Resilience(apart, far, shown, limit)
