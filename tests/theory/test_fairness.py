from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from troth import theory
from troth.types import Refusal

FEDERATIONS = st.fixed_dictionaries(
    {
        "K": st.integers(2, 40),
        "n": st.integers(1, 100),
        "sigma": st.floats(0.1, 3),
        "tau": st.floats(0.05, 2),
    }
)


@given(FEDERATIONS)
def test_clean_the_most_accurate_is_the_fairest(f: dict[str, Any]) -> None:
    """Theorems 2 and 6, at every K ≥ 2."""
    lam = theory.best_lam_regression(f["n"], f["sigma"], f["tau"])
    assert theory.fairest_lam(**f) == pytest.approx(lam, rel=1e-5)


@example({"K": 29, "n": 1, "sigma": 1.5, "tau": 0.05}, 1, 1.5)
@given(FEDERATIONS, st.integers(1, 10), st.floats(1.1, 20))
def test_with_adversaries_it_lies_between(
    f: dict[str, Any], some: int, times: float
) -> None:
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


def test_figure_1() -> None:
    assert theory.fairest_lam(8, 30, 0.8, 0.1) == pytest.approx(32 / 15)
    found = theory.fairest_lam(16, 30, 0.8, 0.1, 8, 0.5)
    assert found == pytest.approx(1.3962, abs=1e-4)


def test_lemma_8_is_the_pooled_variance() -> None:
    f = (12, 7, 1.1, 0.4, 3, 1.5)
    lam = theory.best_lam_regression_attacked(*f)
    w = theory.least_error(*f, d=4) / 4
    assert theory.variance_pooled(lam, *f, d=4) == pytest.approx(2 * 4 * w**2)
    assert theory.variance_within(lam, *f, d=4) < 2 * 4 * w**2


def test_one_benign_client_is_refused() -> None:
    with pytest.raises(Refusal, match="leaves one benign client"):
        theory.fairest_lam(3, 5, 1.0, 1.0, 2, 2.0)
