r"""Limits of resilience to malicious participants: for any algorithm, and in one run.

Equations and corollaries are those of Farhadkhani et al. (2022), *An Equivalence
Between Data Poisoning and Byzantine Gradient Attacks*. θ†_h is the model that honest
participant h prefers, and ρ the global model.

References: farhadkhani2022equivalence.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from troth.types import Refusal


class Resilience(NamedTuple):
    """The values of Eq. (4) in one run (see `resilience_limit`)."""

    heterogeneity: float  # max ‖θ†_h − θ†_h'‖ over pairs of honest participants
    distance: float  # ‖ρ − mean of θ†_h‖
    shown: float  # smallest C for which Eq. (4) holds in this run with ε = 0
    limit: float  # `resilience_limit`: no algorithm can guarantee a smaller C


def resilience_limit(F: int, N: int) -> float:
    """Return the smallest C for which (F, N, C)-Byzantine learning may be possible.

    Let θ†_h be the model that honest participant h prefers, and ρ the global model of
    an algorithm. (F, N, C)-Byzantine learning means that
    ‖ρ − mean of θ†_h‖² ≤ C² max ‖θ†_h − θ†_h'‖² + ε (Eq. 4) in all federations of N
    participants with F malicious ones. It must hold for any ε > 0 with high
    probability, if honest participants have enough examples. No algorithm, with any
    defense, has this property if F ≥ N/2 (Corollary 1) or if C < F/(N − F) (Corollary
    2).

    Guarantee: the result is a lower bound of C. The paper does not state that some
    algorithm attains it.

    Args:
        F: number of malicious participants.
        N: number of participants, including malicious ones.

    Returns:
        F/(N − F), which is below 1. If F ≥ N/2, no C is possible, and the result is ∞.

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

    A run is one attack on one federation. So `shown`, the C of this run, is a lower
    bound of the C that the run's algorithm can guarantee. `limit` is about the worst
    federation, so `shown` may be below `limit`. If `shown` is above `limit`, another
    algorithm may do better on this federation, as far as the theory says.

    Args:
        preferred: [H, d] preferred models θ†_h, one row per honest participant: the
            model that it would learn from an unlimited number of its own examples.
        rho: [d] global model ρ of the run. If it is not finite, the distance is ∞.
        F: number of malicious participants; N is H + F.

    Returns:
        All four numbers. If all honest participants prefer the same model, the factor
        of C in Eq. (4) is 0. Then `shown` is 0 if ρ is that model, and otherwise ∞.

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
