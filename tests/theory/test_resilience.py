import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from troth import theory
from troth.types import Refusal

LIMITS = [(0, 1, 0.0), (0, 10, 0.0), (1, 10, 1 / 9), (1, 3, 0.5), (4, 9, 4 / 5)]
HALF = [(F, N, math.inf) for F, N in ((1, 2), (5, 10), (7, 10), (3, 3))]  # F ≥ N/2


@pytest.mark.parametrize(("F", "N", "limit"), [*LIMITS, *HALF])
def test_by_hand(F, N, limit):
    assert theory.resilience_limit(F, N) == pytest.approx(limit)


@given(st.integers(1, 100), st.data())
def test_it_grows_with_the_hostile_and_stays_below_1(N, data):
    F = data.draw(st.integers(0, N - 1))
    now, more = theory.resilience_limit(F, N), theory.resilience_limit(F + 1, N)
    assert more > now or more == now == math.inf
    assert now < 1 or now == math.inf
    assert (now == math.inf) == (F >= N / 2)


@given(st.integers(3, 30), st.data(), st.floats(-1, 2))
def test_the_federation_of_the_proof(N, data, rho):
    """Corollary 2: N − F at 0 and F at 1, and nobody can tell who is honest.

    If those at 0 are, ρ must be at 0; if F of them are not, at F/(N − F). Whatever ρ
    is, one of the two readings shows at least the limit.
    """
    F = data.draw(st.integers(1, (N - 1) // 2))
    zeros, ones = np.zeros((N - F, 1)), np.ones((F, 1))
    at = np.array([rho])
    first = theory.resilience(zeros, at, F)
    second = theory.resilience(np.concatenate([zeros[F:], ones]), at, F)
    limit = theory.resilience_limit(F, N)
    assert first.limit == second.limit == limit
    assert max(first.shown, second.shown) >= limit * (1 - 1e-9)


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 4), st.integers(0, 10**6))
def test_against_every_pair(H, d, F, seed):
    random = np.random.default_rng(seed)
    theta, rho = random.normal(size=(H, d)), random.normal(size=d)
    found = theory.resilience(theta, rho, F)
    every = [np.linalg.norm(a - b) for a in theta for b in theta]
    assert found.heterogeneity == pytest.approx(max(every))
    assert found.distance == pytest.approx(np.linalg.norm(rho - theta.mean(0)))
    assume(H > 1)
    bound = found.shown**2 * found.heterogeneity**2  # Eq. (4) is tight
    assert found.distance**2 == pytest.approx(bound)


def test_limits():
    alike = np.ones((4, 2))
    assert theory.resilience(alike, np.ones(2), 1)[:3] == (0, 0, 0)
    assert theory.resilience(alike, np.zeros(2), 1).shown == math.inf
    for bad in (np.nan, np.inf):
        found = theory.resilience(np.eye(2), np.array([0, bad]), 0)
        assert found.distance == found.shown == math.inf
    assert theory.resilience(np.eye(2), np.zeros(2), 2).limit == math.inf


@pytest.mark.parametrize(("F", "N"), [(-1, 3), (4, 3), (0, 0), (0.5, 3), (0, 3.5)])
def test_refuses_numbers(F, N):
    with pytest.raises(
        Refusal, match=rf"F = {F} malicious of N = {N} participants must"
    ):
        theory.resilience_limit(F, N)


@pytest.mark.parametrize(
    ("preferred", "rho", "F", "words"),
    [
        (np.ones(3), np.ones(3), 1, r"shape \[3\] and a global model of shape \[3\]"),
        (np.ones((0, 3)), np.ones(3), 1, "H at least 1"),
        (np.ones((2, 3)), np.ones(2), 1, r"shape \[2, 3\] .* shape \[2\]"),
        (np.array([[1.0, np.nan]]), np.ones(2), 1, "NaN or infinity"),
        (np.eye(2), np.ones(2), -1, "F = -1"),
    ],
)
def test_refuses_models(preferred, rho, F, words):
    with pytest.raises(Refusal, match=words):
        theory.resilience(preferred, rho, F)
