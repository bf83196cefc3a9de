"""The best estimate of every client's model from all clients' data.

References: li2021ditto.
"""

from typing import NamedTuple

import numpy as np

from troth.types import Refusal


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
