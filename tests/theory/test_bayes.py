import numpy as np
import pytest

from troth import theory
from troth.types import Refusal


def drawn(seed, K, d, n):
    random = np.random.default_rng(seed)
    x = random.standard_normal((K, n, d)) * random.uniform(0.5, 2, (K, 1, 1))
    return random.standard_normal((K, d)), x.transpose(0, 2, 1) @ x


def joint(estimates, grams, sigma, tau):
    """The same from one linear system in (θ, w_1 … w_K), θ with no prior at all.

    The log density is −½ Σ_k [(w_k − θ)²/τ_k² + (w_k − ŵ_k)ᵀG_k(w_k − ŵ_k)/σ²].
    """
    K, d = estimates.shape
    precision, slope = np.zeros(((K + 1) * d,) * 2), np.zeros((K + 1) * d)
    eye = np.eye(d)
    for k in range(K):
        own = slice((k + 1) * d, (k + 2) * d)
        tie = eye / tau[k] ** 2
        precision[:d, :d] += tie
        precision[own, own] += tie + grams[k] / sigma**2
        precision[:d, own] -= tie
        precision[own, :d] -= tie
        slope[own] += grams[k] @ estimates[k] / sigma**2
    covariance = np.linalg.inv(precision)
    mean = (covariance @ slope)[d:].reshape(K, d)
    blocks = covariance.reshape(K + 1, d, K + 1, d)
    return mean, np.array([blocks[k, :, k] for k in range(1, K + 1)])


@pytest.mark.parametrize(("K", "d"), [(2, 1), (3, 2), (7, 4)])
@pytest.mark.parametrize("own", [False, True])
def test_it_is_the_posterior(K, d, own):
    estimates, grams = drawn(K, K, d, n=d + 3)
    tau = np.linspace(0.3, 2, K) if own else np.full(K, 0.7)
    found = theory.bayes_estimator(estimates, grams, 1.3, tau if own else 0.7)
    mean, covariance = joint(estimates, grams, 1.3, tau)
    np.testing.assert_allclose(found.mean, mean, atol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-9)


def test_ditto_at_its_best_lam_is_the_bayes_estimator():
    """Remark 1, with X_kᵀX_k = βI; and Σ is that of Lemma 8 without adversaries."""
    K, d, n, beta, sigma, tau = 6, 3, 10, 17.0, 1.2, 0.4
    estimates, _ = drawn(0, K, d, n)
    grams = np.broadcast_to(beta * np.eye(d), (K, d, d))
    found = theory.bayes_estimator(estimates, grams, sigma, tau)
    lam = theory.best_lam_regression(n, sigma, tau)
    shared = estimates.mean(axis=0)
    ditto = (beta / n * estimates + lam * shared) / (beta / n + lam)  # Eq. (31)
    np.testing.assert_allclose(found.mean, ditto, atol=1e-12)
    least = theory.least_error(K, n, sigma, tau, d=d, beta=beta)
    np.testing.assert_allclose(np.trace(found.covariance, axis1=1, axis2=2), least)


def test_ends():
    estimates, grams = drawn(1, 5, 2, n=6)
    same = theory.bayes_estimator(estimates, grams, 1.0, 0.0)
    whole = np.linalg.solve(grams.sum(0), np.einsum("kij,kj->i", grams, estimates))
    np.testing.assert_allclose(same.mean, np.broadcast_to(whole, (5, 2)))
    apart = theory.bayes_estimator(estimates, grams, 1.0, 1e6)
    np.testing.assert_allclose(apart.mean, estimates, rtol=1e-6)


@pytest.mark.parametrize(
    ("rows", "sigma", "tau", "words"),
    [
        (4, 1.0, 0.5, "must be .K, d. and .K, d, d."),
        (5, 0.0, 0.5, "sigma = 0.0 must be above 0"),
        (5, 1.0, -0.5, "tau"),
    ],
)
def test_refusals(rows, sigma, tau, words):
    estimates, grams = drawn(1, 5, 2, n=6)
    with pytest.raises(Refusal, match=words):
        theory.bayes_estimator(estimates, grams[:rows], sigma, tau)
