"""Ditto: its best λ, the errors of its models and their spread; the Bayes estimator.

References: li2021ditto.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from troth.types import Refusal


class Setting(NamedTuple):
    """The numbers of a federation, as all closed forms use them."""

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
    """Check the numbers of a federation; β not given is n (point estimation)."""
    beta = float(n) if beta is None else beta
    size = "finite and at least 0"
    for name, value, fits, must in (
        ("K", K, K >= 2, "at least 2 clients"),
        ("K_a", K_a, 0 <= K_a < K, f"0 to {K - 1}, so that a client is benign"),
        ("n", n, n >= 1, "at least 1"),
        ("d", d, d >= 1, "at least 1"),
        ("sigma", sigma, 0 <= sigma < math.inf, size),
        ("tau", tau, 0 <= tau < math.inf, size),
        ("tau_a", tau_a, 0 <= tau_a < math.inf, size),
        ("beta", beta, 0 < beta < math.inf, "finite and above 0"),
    ):
        if not fits:
            raise Refusal(f"{name} = {value} must be {must}")
    excess = tau_a**2 - tau**2
    return Setting(K, sigma**2 / beta, tau**2, excess, K_a, beta / n, d)


def pull(at: Setting, lam: float | np.ndarray) -> np.ndarray:
    """Return the share a of the shared model in Ditto's solution (Eq. 31): λ/(β/n + λ).

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


def best_lam_regression(n: int, sigma: float, tau: float) -> float:
    """Return λ* = σ²/(nτ²), for regression without adversaries (Theorem 1, Eq. 26).

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
    """Return the best λ for regression with adversaries (Theorem 3, Eq. 63).

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
    all that was observed: if the adversaries were known they would count less.

    Departs: the ½ of the loss, as in `best_lam_regression`. Definition 3 asks for
    τ_a > τ; the formula holds for any τ_a ≥ 0, and that is allowed here, since the
    authors' own Fig. 2 has τ_a < τ.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a)
    if sigma == 0:
        return 0.0
    spread = K * at.tau2 + K_a * at.excess / (K - 1)
    return math.inf if spread == 0 else sigma**2 / n * K / spread


best_lam_points = best_lam_regression
"""Point estimation without adversaries, X_k = 1 (β = n, d = 1): Theorem 5, Eq. 82."""

best_lam_points_attacked = best_lam_regression_attacked
"""Point estimation with adversaries: Theorem 7, Eq. 87."""


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
    """Return E‖w_k − v_k(λ)‖² of a benign client (behind Lemmas 8 and 12).

    It is d · [(1 − c)² s² + c² T], where c = λ/(β/n + λ) · (K−1)/K weights the mean of
    the other clients, s² = σ²/β and T = τ² + Σ_w (Eq. 59).

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
    """Return the error at the best λ: d·σ_{w,a}² (Lemma 8; Lemma 12 for d = 1).

    1/σ_{w,a}² = 1/s² + 1/T, Eq. (60); for points Eqs. (79) and (84). Arguments as of
    `error`.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a, d=d, beta=beta)
    if at.s2 + at.others == 0:
        return 0.0
    return d * at.s2 * at.others / (at.s2 + at.others)


def variance_pooled(
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
    """Return the variance of a benign client's ‖w_k − v_k(λ)‖² over all federations.

    2d·v² with v = `error`/d, since the error is Gaussian: least where the mean error
    is, at λ_a*, where it is the 2dσ_{w,a}⁴ of Lemmas 8 and 12. Arguments as of `error`.
    """
    v = error(lam, K, n, sigma, tau, K_a, tau_a, d=d, beta=beta) / d
    return np.asarray(2 * d * v**2)


def variance_within(
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
    """Return E var_{K_b}{‖w_k − v_k(λ)‖²}, over the benign clients of one federation.

    The variance of Definition 2 and Eqs. (33), (64), with divisor K_b:
    (1 − 1/K_b) · 2d · (v² − ρ²), where ρ is the covariance of two benign clients'
    errors, which have w* in common. Arguments as of `error`.

    Departs: Eqs. (49) and (57) take the clients' errors for independent (ρ = 0, and K_b
    for large), which gives Lemma 8's 2dσ_w⁴; that is the pooled variance.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a, d=d, beta=beta)
    return np.asarray((1 - 1 / (K - K_a)) * 2 * d * _product(at)(pull(at, lam)))


def _product(at: Setting) -> Polynomial:
    """(v − ρ)(v + ρ), a polynomial in a, the share of the shared model."""
    h = Polynomial([0.0, -2 * at.s2, at.s2 + at.tau2])
    apart = h + at.s2
    more = Polynomial([0.0, 0.0, 2 * at.K_a * at.excess / at.K**2])
    return Polynomial((apart * ((1 - 2 / at.K) * h + at.s2 + more)).coef)


def fairest_lam(
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
    """Return the λ that minimizes `variance_within`; arguments as of `error`.

    Without adversaries it is the λ* of the mean error (Theorems 2 and 6, true for all
    K ≥ 2).

    Departs: with adversaries Theorems 4 and 8 claim λ_a*. That is where the pooled
    variance is least. Within a federation the minimum lies strictly between λ_a* and
    the λ* of the same federation without adversaries: what the adversaries do to w*
    they do to all benign clients alike, which makes errors larger but not more unlike.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a, d=d, beta=beta)
    if K - K_a < 2:
        raise Refusal(
            f"K_a = {K_a} of K = {K} leaves one benign client, and a variance needs two"
        )
    product = _product(at)
    roots = map(complex, product.deriv().roots().tolist())
    inside = [r.real for r in roots if abs(r.imag) < 1e-9 and 0 < r.real < 1]
    a = min([0.0, 1.0, *inside], key=lambda a: float(product(a)))
    return math.inf if a == 1 else at.curvature * a / (1 - a)  # the reverse of `pull`


class Posterior(NamedTuple):
    """w_k given all data, for every client."""

    mean: np.ndarray  # [K, d] the Bayes estimator
    covariance: np.ndarray  # [K, d, d] Σ_{w_k}


def bayes_estimator(
    estimates: np.ndarray,
    grams: np.ndarray,
    sigma: float,
    tau: float | np.ndarray,
) -> Posterior:
    """Estimate w_k from all clients' data (Lemmas 5 and 6, Eqs. 14–20), any designs.

    θ from the others by Eqs. (15)–(17), then w_k from its own least squares ŵ_k and
    from that, Eqs. (18)–(20).

    Args:
        estimates: [K, d] the clients' least squares ŵ_k, Eq. (14).
        grams: [K, d, d] their X_kᵀX_k, positive definite.
        sigma: σ > 0, noise of y.
        tau: τ, spread of the w_k; 0 makes all w_k the same. Or [K], each client's own:
            known adversaries have τ_a (their w_k is then estimated too).

    Departs: takes one τ per client. Lemma 4, on which Eq. (15) rests, is read as the
    law of w given y, not of ŵ, and its z as n-dimensional.
    """
    estimates, grams = np.asarray(estimates, float), np.asarray(grams, float)
    K, d = estimates.shape
    if K < 2 or grams.shape != (K, d, d):
        raise Refusal(
            f"estimates {list(estimates.shape)} and grams {list(grams.shape)} must be "
            "[K, d] and [K, d, d], of at least 2 clients"
        )
    spread = np.broadcast_to(np.asarray(tau, float), (K,))
    if not sigma > 0 or not (spread >= 0).all():
        raise Refusal(f"sigma = {sigma} must be above 0 and tau = {tau} at least 0")
    own = grams / sigma**2  # (Σ_k − τ²I)⁻¹
    prior = spread[:, None, None] ** 2 * np.eye(d)
    weight = np.linalg.inv(np.linalg.inv(own) + prior)  # Σ_i⁻¹, Eq. (15)
    pulled = np.einsum("kij,kj->ki", weight, estimates)
    theta = np.linalg.inv(weight.sum(0) - weight)  # Eq. (16)
    mu = np.einsum("kij,kj->ki", theta, pulled.sum(0) - pulled)  # Eq. (17)
    rest = np.linalg.inv(theta + prior)  # Eq. (18), inverted
    covariance = np.linalg.inv(rest + own)  # Eq. (19)
    both = np.einsum("kij,kj->ki", own, estimates)
    both += np.einsum("kij,kj->ki", rest, mu)
    return Posterior(np.einsum("kij,kj->ki", covariance, both), covariance)  # Eq. (20)
