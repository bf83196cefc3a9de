"""The best λ of Ditto, its error and its fairness, against plain linear algebra."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from troth import theory
from troth.types import Refusal

SHAPES = {"n": st.integers(1, 100), "sigma": st.floats(0.1, 3)}
SHAPES |= {"tau": st.floats(0.05, 2)}
ATTACK = {"K_a": st.integers(0, 2), "tau_a": st.floats(0, 5)}
CLEAN = st.fixed_dictionaries({"K": st.integers(2, 40), **SHAPES})
FEDERATIONS = st.fixed_dictionaries({"K": st.integers(3, 40), **SHAPES, **ATTACK})


def test_figure_1():
    clean, attacked = (30, 0.8, 0.1), (16, 30, 0.8, 0.1, 8, 0.5)
    assert theory.best_lam_points(*clean) == pytest.approx(2.133, abs=5e-4)
    found = theory.best_lam_points_attacked(*attacked)
    assert found == pytest.approx(1.185, abs=5e-4)
    assert theory.fairest_lam(8, *clean) == pytest.approx(32 / 15)
    assert theory.fairest_lam(*attacked) == pytest.approx(1.3962, abs=1e-4)


@given(FEDERATIONS, st.integers(1, 4), st.floats(0.2, 5))
def test_it_minimises_the_error(f, d, share):
    """For any β = share·n, which λ* does not depend on."""
    lam = theory.best_lam_regression_attacked(**f)
    shape = {"d": d, "beta": share * f["n"]}

    def at(a):
        return float(theory.error(share * a / (1 - a), **f, **shape))

    best = minimize_scalar(at, bounds=(0, 1 - 1e-9), options={"xatol": 1e-9})
    least = theory.least_error(**f, **shape)
    assert float(theory.error(lam, **f, **shape)) == pytest.approx(least, rel=1e-9)
    assert best.fun >= least * (1 - 1e-9)
    assert best.x == pytest.approx(lam / (share + lam), abs=1e-4)


@given(FEDERATIONS)
def test_points_are_a_regression_and_no_adversary_is_none(f):
    attacked = theory.best_lam_regression_attacked(**f)
    assert theory.best_lam_points_attacked(**f) == attacked
    clean = theory.best_lam_points(f["n"], f["sigma"], f["tau"])
    assert clean == theory.best_lam_regression(f["n"], f["sigma"], f["tau"])
    if f["K_a"] == 0:
        assert attacked == pytest.approx(clean, rel=1e-12)
    elif f["tau_a"] > f["tau"] * (1 + 1e-6):
        assert attacked < clean


def test_the_paper_s_observations():
    """More adversaries, further astray: smaller λ (after Lemma 8)."""

    def best(K_a, tau_a):
        return theory.best_lam_regression_attacked(10, 5, 1.0, 0.5, K_a, tau_a)

    by_count = [best(k, 2.0) for k in range(10)]
    by_spread = [best(3, t) for t in (1, 5, 1e6)]
    assert by_count == sorted(by_count, reverse=True)
    assert by_spread == sorted(by_spread, reverse=True) and by_spread[-1] < 1e-9
    same = theory.best_lam_regression_attacked(10, 5, 1.0, 0.0, 3, 2.0)
    assert 0 < same < math.inf  # not the shared model, though all benign are alike


def test_ends():
    assert theory.best_lam_regression(5, 1.0, 0.0) == math.inf
    assert theory.best_lam_regression(5, 0.0, 0.5) == 0
    assert theory.best_lam_regression(5, 0.0, 0.0) == 0
    assert theory.best_lam_regression_attacked(9, 5, 1.0, 0.0, 3, 0.0) == math.inf
    assert theory.least_error(4, 5, 0.0, 0.0) == theory.error(3.0, 4, 5, 0.0, 0.0) == 0


def covariance(f, lam, beta):
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
def test_all_three_are_what_linear_algebra_says(f, lam, share, d):
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


def test_errors_at_the_ends_by_hand():
    """Local: σ²/n; shared: of the mean of two, ½e₁, ½e₂ and ½(ζ₁ − ζ₂)."""
    ends = theory.error(np.array([0.0, math.inf]), 2, 1, 1.0, 1.0)
    np.testing.assert_allclose(ends, [1, 0.25 + 0.25 + 0.5])


@given(CLEAN)
def test_clean_the_most_accurate_is_the_fairest(f):
    """Theorems 2 and 6, at every K ≥ 2."""
    lam = theory.best_lam_regression(f["n"], f["sigma"], f["tau"])
    assert theory.fairest_lam(**f) == pytest.approx(lam, rel=1e-5)


@example({"K": 29, "n": 1, "sigma": 1.5, "tau": 0.05}, 1, 1.5)
@given(CLEAN, st.integers(1, 10), st.floats(1.1, 20))
def test_with_adversaries_it_lies_between(f, some, times):
    """Where Theorems 4 and 8 do not hold: λ_a* < fairest < λ*."""
    f = {**f, "K": f["K"] + some + 1}  # at least three benign
    attack = {"K_a": some, "tau_a": times * f["tau"]}
    clean = theory.best_lam_regression(f["n"], f["sigma"], f["tau"])
    attacked = theory.best_lam_regression_attacked(**f, **attack)
    fairest = theory.fairest_lam(**f, **attack)
    assert attacked * (1 - 1e-9) < fairest < clean * (1 + 1e-9)
    lams = np.array([fairest, attacked, clean, 0.99 * fairest, 1.01 * fairest])
    least, *others = theory.variance_within(lams, **f, **attack)
    # σ²/n is taken off by all but τ² of it, and so many digits are lost
    slack = 1e-12 + 1e-13 * f["sigma"] ** 2 / f["n"] / f["tau"] ** 2
    assert all(least <= other * (1 + slack) for other in others)
    at, *others = theory.variance_pooled(lams[[1, 0, 2]], **f, **attack)
    assert all(at <= other * (1 + slack) for other in others)  # as the theorems say


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"K": 1}, "K = 1 must be at least 2 clients"),
        ({"K_a": 8}, "K_a = 8 must be 0 to 7"),
        ({"K_a": -1}, "K_a = -1"),
        ({"n": 0}, "n = 0"),
        ({"sigma": -1.0}, "sigma = -1.0 must be finite and at least 0"),
        ({"tau": math.nan}, "tau = nan"),
        ({"tau_a": math.inf}, "tau_a = inf"),
        ({"beta": 0.0}, "beta = 0"),
        ({"lam": np.array([1.0, -0.1])}, "lam = .* must be at least 0"),
        ({"lam": math.nan}, "lam = nan"),
    ],
)
def test_refusals(change, words):
    f = {"K": 8, "n": 5, "sigma": 1.0, "tau": 0.5, "K_a": 1, "tau_a": 2.0}
    with pytest.raises(Refusal, match=words):
        theory.error(**{"lam": 1.0, **f, **change})
    with pytest.raises(Refusal, match="leaves one benign client"):
        theory.fairest_lam(**{**f, "K_a": 7})
    with pytest.raises(Refusal, match="K = 1 must"):
        theory.best_lam_regression_attacked(**{**f, "K": 1})
