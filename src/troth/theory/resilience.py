r"""How far malicious participants can bend any algorithm, and how far a run was bent.

References: farhadkhani2022equivalence.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from troth.types import Refusal


class Resilience(NamedTuple):
    """The two sides of Eq. (4), as one run had them."""

    heterogeneity: float  # max ‖θ†_h − θ†_h'‖ over pairs of honest participants
    distance: float  # ‖ρ − mean of θ†_h‖
    shown: float  # the smallest C for which Eq. (4) holds here, with ε = 0
    limit: float  # `resilience_limit`: no algorithm can promise less


def resilience_limit(F: int, N: int) -> float:
    """Return the smallest C that is not ruled out for (F, N, C)-Byzantine learning.

    No algorithm that outputs a global model ρ, whatever it does against poisoned data,
    has ‖ρ − mean of θ†_h‖² ≤ C² max ‖θ†_h − θ†_h'‖² + ε (Eq. 4) for all federations of
    N with F malicious ones if F ≥ N/2 (Corollary 1) or C < F/(N − F) (Corollary 2).

    Guarantee: a lower bound. That some algorithm attains it is not said.

    Args:
        F: malicious participants; 0 gives 0.
        N: participants, malicious ones included.

    Returns:
        F/(N − F), which is below 1; ∞ where no C will do.
    """
    if F % 1 != 0 or N % 1 != 0 or not 0 <= F <= N or N < 1:
        raise Refusal(
            f"F = {F} malicious of N = {N} participants must be whole numbers, "
            "0 ≤ F ≤ N and N at least 1"
        )
    return math.inf if 2 * F >= N else F / (N - F)


def resilience(preferred: np.ndarray, rho: np.ndarray, F: int) -> Resilience:
    """Compare a run's measured distance with the bound of Eq. (4).

    One run is one attack on one federation: `shown` is a lower bound of what its
    algorithm could promise, and may well lie below `limit`, which is about the worst
    federation. Above `limit` a better algorithm is not ruled out for this one.

    Args:
        preferred: θ†_h [H, d], one row per honest participant: what each would
            have learned from its own data without end.
        rho: ρ [d], the global model of the run; where it is not finite, it was driven
            infinitely far.
        F: malicious participants; N is H + F.

    Returns:
        All four numbers. With honest participants who all prefer the same, C multiplies
        0: `shown` is 0 if ρ is there too, else ∞.
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
