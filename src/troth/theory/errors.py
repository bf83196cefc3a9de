"""How far Ditto's personal models are from the truth.

References: li2021ditto.
"""

from __future__ import annotations

import numpy as np

from troth.theory._setting import pull, setting


def error(
    lam: float | np.ndarray,
    K: int,
    n: int,
    sigma: float,
    tau: float,
    K_a: int = 0,
    tau_a: float = 0.0,
    *,
    d: int = 1,
    beta: float | None = None,
) -> np.ndarray:
    """E‖w_k − v_k(λ)‖² of a benign client, as a function of λ (behind Lemmas 8, 12).

    With c = λ/(β/n + λ) · (K−1)/K, the weight of the other clients' mean, s² = σ²/β and
    T = τ² + Σ_w of Eq. (59): d · [(1 − c)² s² + c² T].

    Args:
        lam: λ, a number or many; 0 is local training (d·s²), inf the shared model.
        K: clients, adversaries included.
        n: training examples a client.
        sigma: σ, noise of y.
        tau: τ, spread of benign w_k.
        K_a: adversaries.
        tau_a: τ_a, spread of theirs.
        d: parameters.
        beta: β of X_kᵀX_k = βI; not given: n, which is point estimation for d = 1.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a, d=d, beta=beta)
    c = pull(at, lam) * (K - 1) / K
    return np.asarray(d * ((1 - c) ** 2 * at.s2 + c**2 * at.others))


def least_error(
    K: int,
    n: int,
    sigma: float,
    tau: float,
    K_a: int = 0,
    tau_a: float = 0.0,
    *,
    d: int = 1,
    beta: float | None = None,
) -> float:
    """The error at the best λ: d·σ_{w,a}² (Lemma 8; Lemma 12 for d = 1).

    1/σ_{w,a}² = 1/s² + 1/T, Eq. (60); for points Eqs. (79) and (84). Arguments as of
    `error`.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a, d=d, beta=beta)
    if at.s2 + at.others == 0:
        return 0.0
    return d * at.s2 * at.others / (at.s2 + at.others)
