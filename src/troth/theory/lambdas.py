"""The λ that makes Ditto's personal models most accurate.

References: li2021ditto.
"""

from __future__ import annotations

import math

from troth.theory._setting import setting


def best_lam_regression(n: int, sigma: float, tau: float) -> float:
    """Linear regression without adversaries: λ* = σ²/(nτ²) (Theorem 1, Eq. 26).

    For X_kᵀX_k = βI with any β, and any number of clients. Ditto with it is the Bayes
    estimator (Remark 1).

    Args:
        n: training examples a client; many make λ* small.
        sigma: σ, noise of y; 0 gives λ* = 0, for local estimates are exact.
        tau: τ, spread of the clients' w_k; 0 gives ∞, the shared model.

    Departs: the loss is ½‖Xw − y‖²/n, which Eqs. (23) and (31), Eq. (70) and
    `losses/squared` have; with Eq. (21) as printed, without the ½, λ* is twice this.
    """
    return best_lam_regression_attacked(2, n, sigma, tau, 0, 0.0)


def best_lam_regression_attacked(
    K: int, n: int, sigma: float, tau: float, K_a: int, tau_a: float
) -> float:
    """Linear regression with adversaries (Theorem 3, Eq. 63).

    λ_a* = (σ²/n) · K / (Kτ² + K_a(τ_a² − τ²)/(K − 1)): smaller the more adversaries
    there are and the further they stray.

    Args:
        K: clients, adversaries included.
        n: training examples a client.
        sigma: σ, noise of y, of all clients.
        tau: τ, spread of benign w_k about θ; 0 gives a finite λ if there are
            adversaries.
        K_a: adversaries; 0 is Theorem 1.
        tau_a: τ_a, spread of their w_k (Definition 3); ∞ would give 0.

    Guarantee: the least E‖w_k − v_k(λ)‖² of a benign client k over all λ ≥ 0, for
    X_iᵀX_i = βI. It is the best use of ŵ_k and of the plain mean of the others, not of
    all that was observed: whoever knew the adversaries would weigh them down.

    Departs: the ½ of the loss, as in `best_lam_regression`. Definition 3 asks for
    τ_a > τ; the formula holds for any τ_a ≥ 0, and that is allowed here, since the
    authors' own Fig. 2 has τ_a < τ.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a)
    if sigma == 0:
        return 0.0
    spread = K * at.tau2 + K_a * at.excess / (K - 1)
    return math.inf if spread == 0 else sigma**2 / n * K / spread


def best_lam_points(n: int, sigma: float, tau: float) -> float:
    """Point estimation without adversaries: λ* = σ²/(nτ²) (Theorem 5, Eq. 82).

    Linear regression with X_k = 1 (β = n, d = 1); arguments as there.
    """
    return best_lam_regression(n, sigma, tau)


def best_lam_points_attacked(
    K: int, n: int, sigma: float, tau: float, K_a: int, tau_a: float
) -> float:
    """Point estimation with adversaries (Theorem 7, Eq. 87).

    Linear regression with X_k = 1 (β = n, d = 1); arguments as there.
    """
    return best_lam_regression_attacked(K, n, sigma, tau, K_a, tau_a)
