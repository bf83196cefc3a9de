"""Closed forms for Ditto: best λ, error and variance; and the Bayes estimator.

Each of K clients has n examples of a linear regression: y_k = X_k w_k plus noise of
variance σ². Its true parameters w_k are drawn around θ with variance τ² per coordinate,
those of an adversary with variance τ_a². ŵ_k is a client's least squares estimate, and
w* the mean of all these estimates, the shared model. v_k(λ) is Ditto's model of client
k, which is pulled to w* with strength λ. Point estimation is X_k = 1, a column of ones.
Theorems, lemmas and equations are those of Li et al. (2021), *Ditto*.

References: li2021ditto.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from troth.types import Refusal


class Setting(NamedTuple):
    """The quantities of a federation that all closed forms use."""

    K: int  # number of clients
    s2: float  # σ²/β, variance per coordinate of a local estimate around its w_k
    tau2: float  # τ², variance per coordinate of w_k around θ
    excess: float  # τ_a² − τ²
    K_a: int  # number of adversaries
    curvature: float  # β/n, the curvature of a client's loss ½‖Xw − y‖²/n
    d: int  # number of parameters

    @property
    def others(self) -> float:
        """Variance, per coordinate, of w_k minus the mean of the other ŵ_i.

        For a benign client k and K − 1 other clients i, it is
        [Kτ² + s² + K_a(τ_a² − τ²)/(K−1)] / (K−1) with s² = σ²/β. This is τ² + Σ_w with
        Σ_w of Eq. (59).
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
    """Compute the quantities of a federation from the arguments of a closed form.

    If β is None, it is n (point estimation). Raise Refusal if a number is out of range.
    """
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
    """Return the weight a of the shared model in Ditto's solution: λ/(β/n + λ).

    By Eq. (31), v_k = (1 − a) ŵ_k + a w*. If λ = 0, a is 0, and v_k is the local
    estimate. If λ = ∞, a is 1, and v_k is the shared model.
    """
    lam = np.asarray(lam, dtype=float)
    if not (lam >= 0).all():
        raise Refusal(
            f"lam = {lam} must be at least 0; 0 is local, inf the shared model"
        )
    with np.errstate(divide="ignore", over="ignore"):  # λ is 0 or tiny
        return np.asarray(1 / (1 + at.curvature / lam))


def best_lam_regression(n: int, sigma: float, tau: float) -> float:
    """Return the best λ for regression without adversaries (Theorem 1, Eq. 26).

    It is λ* = σ²/(nτ²), for X_kᵀX_k = βI with any β, and for any number of clients.
    Ditto with λ* is the Bayes estimator (Remark 1).

    Args:
        n: training examples per client; the more examples, the smaller λ*.
        sigma: σ, standard deviation of the noise of y. If σ = 0, local estimates are
            exact, and λ* = 0.
        tau: τ, standard deviation of the clients' w_k around θ. If τ = 0, λ* = ∞.

    Returns:
        λ* ≥ 0; ∞ means the shared model.

    Example:
        >>> best_lam_regression(n=50, sigma=1.0, tau=0.5)
        0.08

    Departs: the loss is ½‖Xw − y‖²/n, as in Eqs. (23), (31) and (70) and in the loss
    `squared`. Eq. (21) is printed without the ½; then λ* would be twice as large.
    """
    return best_lam_regression_attacked(2, n, sigma, tau, 0, 0.0)


def best_lam_regression_attacked(
    K: int, n: int, sigma: float, tau: float, K_a: int, tau_a: float
) -> float:
    """Return the best λ for regression with adversaries (Theorem 3, Eq. 63).

    It is λ_a* = (σ²/n) · K / (Kτ² + K_a(τ_a² − τ²)/(K − 1)). If τ_a > τ, it decreases
    with the number of adversaries. It decreases with τ_a.

    Args:
        K: number of clients, including adversaries.
        n: training examples per client.
        sigma: σ, standard deviation of the noise of y, the same for all clients.
        tau: τ, standard deviation of the benign clients' w_k around θ. With
            adversaries, the best λ is finite even if τ = 0.
        K_a: number of adversaries; 0: as in Theorem 1.
        tau_a: τ_a, standard deviation of the adversaries' w_k around θ (Definition 3).
            As τ_a grows, λ tends to 0.

    Returns:
        λ_a* ≥ 0; ∞ means the shared model.

    Example:
        >>> best_lam_regression_attacked(K=10, n=50, sigma=1.0, tau=0.5, K_a=2, tau_a=5)
        0.025

    Guarantee: for X_iᵀX_i = βI, λ_a* minimizes E‖w_k − v_k(λ)‖² of a benign client k
    over all λ ≥ 0. Then v_k is the best weighted mean of ŵ_k and the plain mean of the
    other estimates. If the adversaries were known, an estimator that gives them less
    weight would be better.

    Departs: the ½ of the loss, as in `best_lam_regression`. Definition 3 requires
    τ_a > τ. Here any τ_a ≥ 0 is allowed, because the formula holds for it, and because
    Fig. 2 of the paper has τ_a < τ.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a)
    if sigma == 0:
        return 0.0
    spread = K * at.tau2 + K_a * at.excess / (K - 1)
    return math.inf if spread == 0 else sigma**2 / n * K / spread


best_lam_points = best_lam_regression
"""The best λ for point estimation without adversaries (Theorem 5, Eq. 82).

Point estimation is regression with X_k = 1, a column of ones, so β = n and d = 1.
"""

best_lam_points_attacked = best_lam_regression_attacked
"""The best λ for point estimation with adversaries (Theorem 7, Eq. 87)."""


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
    """Return the mean squared error of Ditto, E‖w_k − v_k(λ)‖², for a benign client.

    The error is d · [(1 − c)² s² + c² T], from which Lemmas 8 and 12 follow. Here
    c = λ/(β/n + λ) · (K−1)/K is the weight of the mean of the other clients' estimates,
    s² = σ²/β, and T = [Kτ² + s² + K_a(τ_a² − τ²)/(K−1)] / (K−1) (Eq. 59).

    Args:
        lam: λ, one number or an array; 0: local training, with error d·s²; ∞: the
            shared model.
        K: number of clients, including adversaries.
        n: training examples per client.
        sigma: σ, standard deviation of the noise of y.
        tau: τ, standard deviation of the benign clients' w_k around θ.
        K_a: number of adversaries.
        tau_a: τ_a, standard deviation of the adversaries' w_k around θ.
        d: number of parameters.
        beta: β of X_kᵀX_k = βI; None: n. With d = 1, β = n is point estimation.

    Returns:
        The error for every λ, in the shape of `lam`.

    Example:
        >>> error([0.0, 0.08, np.inf], K=10, n=50, sigma=1.0, tau=0.5).round(4)
        array([0.02  , 0.0187, 0.227 ])
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
    """Return the mean squared error at the best λ (Lemma 8; Lemma 12 for d = 1).

    It is d·σ_{w,a}² with 1/σ_{w,a}² = 1/s² + 1/T, by Eq. (60), and for point estimation
    by Eqs. (79) and (84). `error` defines s² and T.

    Args:
        K: number of clients, including adversaries.
        n: training examples per client.
        sigma: σ, standard deviation of the noise of y.
        tau: τ, standard deviation of the benign clients' w_k around θ.
        K_a: number of adversaries.
        tau_a: τ_a, standard deviation of the adversaries' w_k around θ.
        d: number of parameters.
        beta: β of X_kᵀX_k = βI; None: n. With d = 1, β = n is point estimation.

    Returns:
        The least error, which is `error` at the best λ.

    Example:
        >>> round(least_error(K=10, n=50, sigma=1.0, tau=0.5), 4)
        0.0187
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
    """Return the variance of a benign client's squared error over random federations.

    The squared error is ‖w_k − v_k(λ)‖². Its variance is 2d·v² with v = `error`/d,
    because w_k − v_k(λ) is Gaussian. Like the mean, the variance is smallest at the
    best λ. There it is 2dσ_{w,a}⁴ (Lemmas 8 and 12), with σ_{w,a} as in `least_error`.

    Args:
        lam: λ, one number or an array; 0: local training; ∞: the shared model.
        K: number of clients, including adversaries.
        n: training examples per client.
        sigma: σ, standard deviation of the noise of y.
        tau: τ, standard deviation of the benign clients' w_k around θ.
        K_a: number of adversaries.
        tau_a: τ_a, standard deviation of the adversaries' w_k around θ.
        d: number of parameters.
        beta: β of X_kᵀX_k = βI; None: n. With d = 1, β = n is point estimation.

    Returns:
        The variance for every λ, in the shape of `lam`.

    Example:
        >>> round(float(variance_pooled(0.08, K=10, n=50, sigma=1.0, tau=0.5)), 6)
        0.000697
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
    """Return the expected variance of the squared error within a federation.

    The variance is that of ‖w_k − v_k(λ)‖² over the K_b benign clients k of one
    federation, with divisor K_b (Definition 2, Eqs. (33) and (64)). Its expected value
    is (1 − 1/K_b) · 2d · (v² − ρ²). Here v = `error`/d. ρ is the covariance, per
    coordinate, of w_k − v_k(λ) of two benign clients, which depend on the same w*.

    Args:
        lam: λ, one number or an array; 0: local training; ∞: the shared model.
        K: number of clients, including adversaries.
        n: training examples per client.
        sigma: σ, standard deviation of the noise of y.
        tau: τ, standard deviation of the benign clients' w_k around θ.
        K_a: number of adversaries.
        tau_a: τ_a, standard deviation of the adversaries' w_k around θ.
        d: number of parameters.
        beta: β of X_kᵀX_k = βI; None: n. With d = 1, β = n is point estimation.

    Returns:
        The expected variance for every λ, in the shape of `lam`.

    Example:
        >>> round(float(variance_within(0.08, K=10, n=50, sigma=1.0, tau=0.5)), 6)
        0.000627

    Departs: Eqs. (49) and (57) assume independent errors (ρ = 0) and a large K_b. The
    result is 2dσ_w⁴ of Lemma 8, which is `variance_pooled` at the best λ.
    """
    at = setting(K, n, sigma, tau, K_a, tau_a, d=d, beta=beta)
    return np.asarray((1 - 1 / (K - K_a)) * 2 * d * _product(at)(pull(at, lam)))


def _product(at: Setting) -> Polynomial:
    """Return v² − ρ² of `variance_within` as a polynomial in the weight a of `pull`."""
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
    """Return the fairest λ: the one that minimizes `variance_within`.

    Without adversaries, it is the λ that also minimizes the mean error (Theorems 2 and
    6, for all K ≥ 2).

    Args:
        K: number of clients, including adversaries.
        n: training examples per client.
        sigma: σ, standard deviation of the noise of y.
        tau: τ, standard deviation of the benign clients' w_k around θ.
        K_a: number of adversaries.
        tau_a: τ_a, standard deviation of the adversaries' w_k around θ.
        d: number of parameters.
        beta: β of X_kᵀX_k = βI; None: n. With d = 1, β = n is point estimation.

    Returns:
        λ ≥ 0; ∞ means the shared model.

    Example:
        >>> round(fairest_lam(K=10, n=50, sigma=1.0, tau=0.5), 4)
        0.08

    Departs: with adversaries, Theorems 4 and 8 say that the best λ, λ_a*, is also the
    fairest. But λ_a* minimizes `variance_pooled`. The λ that minimizes the variance
    within a federation lies strictly between λ_a* and the best λ without adversaries.
    The reason is that adversaries change w* for all benign clients alike. This makes
    their errors larger, but not more different from each other.
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
    """The posterior distribution of w_k given all clients' data, for every client k."""

    mean: np.ndarray  # [K, d] the Bayes estimator
    covariance: np.ndarray  # [K, d, d] posterior covariance of w_k


def bayes_estimator(
    estimates: np.ndarray,
    grams: np.ndarray,
    sigma: float,
    tau: float | np.ndarray,
) -> Posterior:
    """Estimate each w_k from all clients' data, for any X_k (Lemmas 5 and 6).

    First estimate θ from the other clients by Eqs. (15)–(17). Then combine this with
    the client's least squares estimate ŵ_k by Eqs. (18)–(20).

    Args:
        estimates: [K, d] the clients' least squares estimates ŵ_k, Eq. (14).
        grams: [K, d, d] the clients' X_kᵀX_k, positive definite.
        sigma: σ > 0, standard deviation of the noise of y.
        tau: τ, standard deviation of the w_k around θ, one number or one per client
            [K]; 0: all w_k are equal. For known adversaries, give τ_a.

    Returns:
        The mean, which is the Bayes estimator, and the covariance, for every client.

    Example:
        >>> estimates, grams = np.array([[0.0], [1.0], [2.0]]), np.full((3, 1, 1), 10.0)
        >>> bayes_estimator(estimates, grams, sigma=1.0, tau=0.5).mean.ravel().round(3)
        array([0.286, 1.   , 1.714])

    Departs: accepts one τ per client. Lemma 4, from which Eq. (15) follows, is read as
    being about the distribution of w given y (it prints ŵ), with n-dimensional noise z.
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
