"""The federation of Ditto's Appendix B in a few numbers, checked."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from troth.types import Refusal


class Setting(NamedTuple):
    """What all closed forms are made of."""

    K: int  # clients
    s2: float  # σ²/β, variance of a local estimate about its w_k, a coordinate
    tau2: float  # τ², of w_k about θ
    excess: float  # τ_a² − τ²
    K_a: int  # adversaries
    curvature: float  # β/n, of a client's loss ½‖Xw − y‖²/n
    d: int  # coordinates

    @property
    def others(self) -> float:
        """Variance of the mean of the other clients' estimates about a benign w_k.

        τ² + Σ_w of Eq. (59), a coordinate: [Kτ² + s² + K_a(τ_a² − τ²)/(K−1)] / (K−1).
        """
        rest = self.K - 1
        more = self.K_a * self.excess / rest
        return (self.K * self.tau2 + self.s2 + more) / rest


def setting(
    K: int,
    n: int,
    sigma: float,
    tau: float,
    K_a: int = 0,
    tau_a: float = 0.0,
    *,
    d: int = 1,
    beta: float | None = None,
) -> Setting:
    """Check the numbers of a federation; β not given is n (point estimation).

    Raises:
        Refusal: a number that describes no federation.
    """
    if K < 2:
        raise Refusal(f"K = {K} clients: the theory is about at least 2")
    if not 0 <= K_a < K:
        raise Refusal(
            f"K_a = {K_a} adversaries must be 0 to {K - 1}, for at least one of the "
            f"K = {K} clients is benign"
        )
    if n < 1 or d < 1:
        raise Refusal(f"n = {n} and d = {d} must both be at least 1")
    for name, value in (("sigma", sigma), ("tau", tau), ("tau_a", tau_a)):
        if not (0 <= value < math.inf):
            raise Refusal(f"{name} = {value} must be a finite number of at least 0")
    beta = float(n) if beta is None else beta
    if not (0 < beta < math.inf):
        raise Refusal(f"beta = {beta} must be a finite number above 0")
    excess = tau_a**2 - tau**2
    return Setting(K, sigma**2 / beta, tau**2, excess, K_a, beta / n, d)


def pull(at: Setting, lam: float | np.ndarray) -> np.ndarray:
    """The share a of the shared model in Ditto's solution: λ/(β/n + λ), Eq. (31).

    v_k = (1 − a) ŵ_k + a w*, with w* the mean of all K local estimates. 0 is local
    training (λ = 0), 1 the shared model (λ = ∞).
    """
    lam = np.asarray(lam, dtype=float)
    if not (lam >= 0).all():
        raise Refusal(
            f"lam = {lam} must be at least 0; 0 is local, inf the shared model"
        )
    with np.errstate(divide="ignore", over="ignore"):  # λ = 0, or next to it
        return np.asarray(1 / (1 + at.curvature / lam))


def lam_of(at: Setting, a: float) -> float:
    """The λ whose share of the shared model is a; the reverse of `pull`."""
    return math.inf if a >= 1 else at.curvature * a / (1 - a)
