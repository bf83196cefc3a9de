from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from troth import theory
from troth.types import Refusal

FEDERATIONS = st.fixed_dictionaries(
    {
        "K": st.integers(3, 40),
        "n": st.integers(1, 100),
        "sigma": st.floats(0.1, 3),
        "tau": st.floats(0.05, 2),
        "K_a": st.integers(0, 2),
        "tau_a": st.floats(0, 5),
    }
)


def test_figure_1() -> None:
    assert theory.best_lam_points(30, 0.8, 0.1) == pytest.approx(2.133, abs=5e-4)
    found = theory.best_lam_points_attacked(16, 30, 0.8, 0.1, 8, 0.5)
    assert found == pytest.approx(1.185, abs=5e-4)


def test_by_hand() -> None:
    """σ² = 4, n = 2, τ² = 1; K = 3, K_a = 1, τ_a² = 9: 2·3/(3 + ½·8)."""
    assert theory.best_lam_regression(2, 2.0, 1.0) == 2.0
    found = theory.best_lam_regression_attacked(3, 2, 2.0, 1.0, 1, 3.0)
    assert found == pytest.approx(6 / 7)


@given(FEDERATIONS, st.integers(1, 4), st.floats(0.2, 5))
def test_it_minimises_the_error(f: dict[str, Any], d: int, share: float) -> None:
    """For any β = share·n, which λ* does not depend on."""
    lam = theory.best_lam_regression_attacked(**f)
    shape = {"d": d, "beta": share * f["n"]}

    def at(a: float) -> float:
        return float(theory.error(share * a / (1 - a), **f, **shape))

    best = minimize_scalar(at, bounds=(0, 1 - 1e-9), options={"xatol": 1e-9})
    least = theory.least_error(**f, **shape)
    assert float(theory.error(lam, **f, **shape)) == pytest.approx(least, rel=1e-9)
    assert best.fun >= least * (1 - 1e-9)
    assert best.x == pytest.approx(lam / (share + lam), abs=1e-4)


@given(FEDERATIONS)
def test_points_are_a_regression_and_no_adversary_is_none(f: dict[str, Any]) -> None:
    attacked = theory.best_lam_regression_attacked(**f)
    assert theory.best_lam_points_attacked(**f) == attacked
    clean = theory.best_lam_points(f["n"], f["sigma"], f["tau"])
    assert clean == theory.best_lam_regression(f["n"], f["sigma"], f["tau"])
    if f["K_a"] == 0:
        assert attacked == pytest.approx(clean, rel=1e-12)
    elif f["tau_a"] > f["tau"] * (1 + 1e-6):
        assert attacked < clean


def test_the_paper_s_observations() -> None:
    """More adversaries, further astray: smaller λ (after Lemma 8)."""
    f = {"K": 10, "n": 5, "sigma": 1.0, "tau": 0.5}
    by_count = [
        theory.best_lam_regression_attacked(**f, K_a=k, tau_a=2.0) for k in range(10)
    ]
    assert by_count == sorted(by_count, reverse=True)
    by_spread = [
        theory.best_lam_regression_attacked(**f, K_a=3, tau_a=t) for t in (1, 5, 1e6)
    ]
    assert by_spread == sorted(by_spread, reverse=True) and by_spread[-1] < 1e-9
    same = theory.best_lam_regression_attacked(10, 5, 1.0, 0.0, 3, 2.0)
    assert 0 < same < math.inf  # not the shared model, though all benign are alike


def test_ends() -> None:
    assert theory.best_lam_regression(5, 1.0, 0.0) == math.inf
    assert theory.best_lam_regression(5, 0.0, 0.5) == 0
    assert theory.best_lam_regression(5, 0.0, 0.0) == 0
    assert theory.best_lam_regression_attacked(9, 5, 1.0, 0.0, 3, 0.0) == math.inf


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"K": 1}, "K = 1 clients"),
        ({"K_a": 8}, "K_a = 8 adversaries must be 0 to 7"),
        ({"K_a": -1}, "K_a = -1 adversaries"),
        ({"n": 0}, "n = 0 and d = 1"),
        ({"sigma": -1.0}, "sigma = -1.0 must be a finite number of at least 0"),
        ({"tau": math.nan}, "tau = nan"),
        ({"tau_a": math.inf}, "tau_a = inf"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    f = {"K": 8, "n": 5, "sigma": 1.0, "tau": 0.5, "K_a": 1, "tau_a": 2.0}
    with pytest.raises(Refusal, match=words):
        theory.best_lam_regression_attacked(**{**f, **change})
