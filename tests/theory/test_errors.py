"""Errors and their variances against plain linear algebra on all that is random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth import theory
from troth.types import Refusal

FEDERATIONS = st.fixed_dictionaries(
    {
        "K": st.integers(3, 9),
        "n": st.integers(1, 30),
        "sigma": st.floats(0.1, 3),
        "tau": st.floats(0.05, 2),
        "K_a": st.integers(0, 1),
        "tau_a": st.floats(0, 5),
    }
)


def covariance(f: dict[str, Any], lam: float, beta: float) -> np.ndarray:
    """[K_b, K_b] of w_k − v_k, a coordinate: each is linear in all ζ_i and e_i."""
    K, good = f["K"], f["K"] - f["K_a"]
    gain = beta / f["n"]
    local = np.hstack([np.eye(K), np.eye(K)])  # ŵ_k = θ + ζ_k + e_k; θ drops out
    mean = local.mean(axis=0)
    personal = (gain * local + lam * mean) / (gain + lam)  # Eq. (31)
    off = np.hstack([np.eye(K), np.zeros((K, K))]) - personal
    tau = np.where(np.arange(K) < good, f["tau"], f["tau_a"])
    variances = np.r_[tau**2, np.full(K, f["sigma"] ** 2 / beta)]
    return (off * variances @ off.T)[:good, :good]


@given(FEDERATIONS, st.floats(0, 50), st.floats(0.2, 5), st.integers(1, 4))
def test_all_three_are_what_linear_algebra_says(
    f: dict[str, Any], lam: float, share: float, d: int
) -> None:
    beta = share * f["n"]
    found = covariance(f, lam, beta)
    shape = {"d": d, "beta": beta}
    assert float(theory.error(lam, **f, **shape)) == pytest.approx(d * found[0, 0])
    pooled = float(theory.variance_pooled(lam, **f, **shape))
    assert pooled == pytest.approx(2 * d * found[0, 0] ** 2)
    squares = 2 * d * found**2  # Cov(‖r_j‖², ‖r_k‖²) of Gaussians
    within = np.trace(squares) / len(squares) - squares.mean()
    said = float(theory.variance_within(lam, **f, **shape))
    assert said == pytest.approx(within, rel=1e-6, abs=1e-12)


def test_by_hand() -> None:
    """K = 2, n = 1, σ = τ = 1: T = (2 + 1)/1 = 3, σ_w² = 3/4, λ* = 1, c = 1/4."""
    assert theory.least_error(2, 1, 1.0, 1.0) == 0.75
    assert theory.error(1.0, 2, 1, 1.0, 1.0) == pytest.approx(9 / 16 + 3 / 16)
    assert theory.least_error(2, 1, 1.0, 1.0, d=3) == 3 * 0.75
    # local: σ²/n; shared: the mean of two, ½e₁, ½e₂ and ½(ζ₁ − ζ₂)
    ends = theory.error(np.array([0.0, math.inf]), 2, 1, 1.0, 1.0)
    np.testing.assert_allclose(ends, [1, 0.25 + 0.25 + 0.5])


def test_equations_79_and_84() -> None:
    K, n, sigma, tau, K_a, tau_a = 16, 30, 0.8, 0.1, 8, 0.5
    noise = sigma**2 / n
    wide = K * tau**2 + noise
    clean = 1 / (1 / noise + (K - 1) / wide)
    assert theory.least_error(K, n, sigma, tau) == pytest.approx(clean)
    wide += K_a / (K - 1) * (tau_a**2 - tau**2)
    attacked = 1 / (1 / noise + (K - 1) / wide)
    assert theory.least_error(K, n, sigma, tau, K_a, tau_a) == pytest.approx(attacked)
    assert attacked > clean


def test_ends_and_refusals() -> None:
    assert theory.least_error(4, 5, 0.0, 0.0) == 0
    assert theory.error(3.0, 4, 5, 0.0, 0.0) == 0
    with pytest.raises(Refusal, match="lam = .* must be at least 0"):
        theory.error(np.array([1.0, -0.1]), 4, 5, 1.0, 1.0)
    with pytest.raises(Refusal, match="lam = nan"):
        theory.error(math.nan, 4, 5, 1.0, 1.0)
    with pytest.raises(Refusal, match="beta = 0"):
        theory.error(1.0, 4, 5, 1.0, 1.0, beta=0)
