"""How unlike the clients' errors are: Ditto's notion of fairness.

References: li2021ditto.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial

from troth.theory._setting import Setting, lam_of, pull, setting
from troth.theory.errors import error
from troth.types import Refusal


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
    """Variance of a benign client's ‖w_k − v_k(λ)‖² over all federations there may be.

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
    """E var_{K_b}{‖w_k − v_k(λ)‖²}: over the benign clients of one federation.

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
    product: Polynomial = apart * ((1 - 2 / at.K) * h + at.s2 + more)
    return product


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
    """The λ that minimises `variance_within`; arguments as of `error`.

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
    return lam_of(at, min([0.0, 1.0, *inside], key=lambda a: float(product(a))))
