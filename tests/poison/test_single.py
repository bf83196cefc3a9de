"""One example bends a linear regression (Theorem 5), checked on the whole loss."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.poison import Examples, coupled_optimum, honest_pull, single_example, spread
from troth.types import Refusal

NU = [0.0, 0.1, 1.0]


def honest(n, d, seed, rank=0):
    """n users; with a rank, each one's own queries span only so many directions."""
    rng = np.random.default_rng([seed, n, d])
    queries, answers = [], []
    for _ in range(n):
        m = int(rng.integers(d, 3 * d + 1))
        q = rng.normal(size=(m, d))
        if rank:
            q = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, d))
        queries.append(q)
        answers.append(q @ rng.normal(1, 1, d) + 0.1 * rng.normal(size=m))
    return queries, answers


def landed(users, bad, lam, nu):
    queries, answers = users
    return coupled_optimum([*queries, bad.x], [*answers, bad.y], lam=lam, nu=nu).rho


def test_by_hand():
    """One honest user with one example q = 1, a = 0; λ = 1, ν = 0, target 1.

    Its model at ρ = 1 is ½, its pull g = ½, so θ♠ = 3/2, q = ½ and a = 3/4 + 1.
    """
    g = honest_pull([[[1.0]]], [[0.0]], [1.0], lam=1.0)
    assert g == pytest.approx([0.5])
    bad = single_example([1.0], g, lam=1.0)
    assert bad.x.tolist() == [[0.5]] and bad.y.tolist() == [1.75]
    found = coupled_optimum([[[1.0]], bad.x], [[0.0], bad.y], lam=1.0)
    assert found.rho == pytest.approx([1.0])
    assert found.theta.ravel() == pytest.approx([0.5, 1.5])


def test_norms_and_counts_grow_as_the_paper_says():
    """Θ(N) and Θ(N²) (Section 5.3); with a query of fixed norm the answer is Θ(N)."""
    sizes, target = [8, 16, 32, 64, 128], np.array([-2.0, 1.0, -1.0, 3.0])
    everyone, rows = honest(max(sizes), 4, seed=8), []
    for n in sizes:
        users = [part[: n - 1] for part in everyone]
        g = honest_pull(*users, target, lam=1.0, nu=0.1)
        one, unit = (
            single_example(target, g, lam=1.0, nu=0.1, norm=norm) for norm in (0.0, 1.0)
        )
        rows.append([np.linalg.norm(one.x), abs(one.y[0]), abs(unit.y[0])])
        rows[-1].append(len(spread(one).x))
    powers = np.polyfit(np.log(sizes), np.log(rows), 1)[0]
    for found, power, off in zip(
        powers, (1, 2, 1, 2), (0.15, 0.3, 0.15, 0.3), strict=True
    ):
        assert found == pytest.approx(power, abs=off)


@pytest.mark.parametrize("nu", NU)
@pytest.mark.parametrize("n", [2, 9, 24, 49])  # honest ones; one more attacks
@pytest.mark.parametrize("rank", [0, 2])
def test_the_shared_model_is_the_target(n, nu, rank):
    d, lam = (5 if n > 2 or not rank else 4), 0.7
    users = honest(n, d, seed=1, rank=rank)
    target = np.random.default_rng(n).normal(0, 3, d)
    g = honest_pull(*users, target, lam=lam, nu=nu)
    one, unit = (single_example(target, g, lam=lam, nu=nu, norm=x) for x in (0.0, 1.0))
    short = spread(one)
    assert len(one.x) == len(unit.x) == 1
    assert np.linalg.norm(short.x, axis=1).max() <= 1 + 1e-12
    assert np.linalg.norm(unit.x) == pytest.approx(1)
    for bad in (one, unit, short):
        assert np.abs(landed(users, bad, lam, nu) - target).max() < 1e-8


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(2, 12), st.integers(1, 6)),
    pull=st.tuples(st.floats(0.05, 20), st.floats(0, 3)),
    seed=st.integers(0, 10**6),
)
def test_any_federation(shape, pull, seed):
    users, (lam, nu) = honest(*shape, seed), pull
    target = np.random.default_rng(seed).normal(0, 2, shape[1])
    g = honest_pull(*users, target, lam=lam, nu=nu)
    found = landed(users, single_example(target, g, lam=lam, nu=nu), lam, nu)
    assert np.abs(found - target).max() < 1e-7


@pytest.mark.parametrize("nu", NU)
def test_the_printed_example_misses(nu):
    """(g, gᵀθ♠ − 1) of Appendix K, and what either of its two errors costs.

    With its sign put right it still leaves the weight decay out.
    """
    lam, d = 0.7, 4
    users = honest(9, d, seed=2)
    target = np.random.default_rng(0).normal(0, 3, d)
    g = honest_pull(*users, target, lam=lam, nu=nu)
    for sign in (-1, 1) if nu else (-1,):
        printed = Examples(g[None], np.array([g @ (target + g / lam) + sign]))
        assert np.linalg.norm(landed(users, printed, lam, nu) - target) > 0.01


def test_the_pull_is_the_slope_of_the_honest_loss():
    """g by differences of the loss with local models minimised (Eq. 175)."""
    queries, answers = honest(4, 3, seed=3)
    lam, nu = 1.3, 0.2
    target = np.array([0.5, -1.0, 2.0])

    def loss(rho):
        total = 0.0
        for q, a in zip(queries, answers, strict=True):
            matrix = q.T @ q + (2 * nu + lam) * np.eye(3)
            theta = np.linalg.solve(matrix, q.T @ a + lam * rho)
            total += nu * theta @ theta + 0.5 * ((q @ theta - a) ** 2).sum()
            total += 0.5 * lam * ((rho - theta) ** 2).sum()
        return total

    slope = [(loss(target + e) - loss(target - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    pull = honest_pull(queries, answers, target, lam=lam, nu=nu)
    assert pull == pytest.approx(slope, abs=1e-6)


def test_the_optimum_is_a_minimum():
    queries, answers = honest(3, 2, seed=4)
    lam, nu = 0.5, 0.1

    def loss(rho, theta):
        each = zip(queries, answers, theta, strict=True)
        fit = sum(0.5 * ((q @ t - a) ** 2).sum() for q, a, t in each)
        near = 0.5 * lam * ((rho - theta) ** 2).sum()
        return float(fit + nu * (theta**2).sum() + near)

    best = coupled_optimum(queries, answers, lam=lam, nu=nu)
    for step in 1e-2 * np.random.default_rng(0).normal(size=(100, 4, 2)):
        assert loss(best.rho + step[0], best.theta + step[1:]) > loss(*best)


@pytest.mark.parametrize("nu", NU)
def test_with_an_intercept(nu):
    queries, answers = honest(6, 3, seed=6)
    ones = [np.column_stack([q, np.ones(len(q))]) for q in queries]
    target = np.random.default_rng(6).normal(size=4)
    g = honest_pull(ones, answers, target, lam=1.0, nu=nu)
    bad = single_example(target, g, lam=1.0, nu=nu, bias=True)
    assert bad.x.shape == (1, 3)
    whole = Examples(np.column_stack([bad.x, [1.0]]), bad.y)
    assert np.abs(landed((ones, answers), whole, 1.0, nu) - target).max() < 1e-8


def test_nothing_to_counter():
    """The target is where the honest go anyway: the example says nothing."""
    users = honest(5, 3, seed=7)
    target = coupled_optimum(*users, lam=1.0).rho
    bad = single_example(target, np.zeros(3), lam=1.0)
    assert not bad.x.any() and not bad.y.any()
    assert landed(users, bad, 1.0, 0.0) == pytest.approx(target)
    assert len(spread(bad).x) == 1


@given(norm=st.floats(0.1, 5), size=st.floats(0.01, 40))
def test_spread_keeps_the_loss(norm, size):
    one = Examples(np.array([[0.6 * size, 0.8 * size]]), np.array([3.0]))
    many = spread(one, norm=norm)
    assert np.linalg.norm(many.x, axis=1).max() <= norm * (1 + 1e-12)
    for theta in np.random.default_rng(0).normal(size=(5, 2)):
        losses = [0.5 * ((e.x @ theta - e.y) ** 2).sum() for e in (one, many)]
        assert losses[0] == pytest.approx(losses[1])


USERS = honest(4, 3, seed=9)
ZERO, PULL = np.zeros(3), np.ones(3)
NO_BIAS = (np.zeros(2), [1.0, 0.0])
NARROW = ([np.eye(3), np.eye(2)], [[1] * 3, [1] * 2], ZERO)
UNIT = Examples(np.ones((1, 2)), np.ones(1))


@pytest.mark.parametrize(
    ("call", "given", "options", "words"),
    [
        (single_example, (ZERO, PULL), {"lam": 0.0}, "lam = 0.0 must be"),
        (honest_pull, (*USERS, ZERO), {"lam": math.inf}, "lam = inf must be"),
        (coupled_optimum, USERS, {"lam": -1.0}, "lam = -1.0 must be"),
        (honest_pull, (*USERS, np.zeros(2)), {"lam": 1.0}, "and the honest users'"),
        (single_example, (np.zeros(2), ZERO), {"lam": 1.0}, "2 .* and the honest pull"),
        (single_example, (ZERO, PULL), {"lam": 1.0, "nu": -0.1}, "nu = -0.1 must be"),
        (spread, (UNIT,), {"norm": 0}, "norm = 0 must be a finite number above 0"),
        (honest_pull, ([np.ones((2, 3))], [[1.0]], ZERO), {"lam": 1.0}, "user 0 has 2"),
        (honest_pull, NARROW, {"lam": 1.0}, "a query of user 1 has 2 parameters and"),
        (honest_pull, ([], [], ZERO), {"lam": 1.0}, "queries of 0 users"),
        (single_example, NO_BIAS, {"lam": 1.0, "bias": True}, "the intercept is 0"),
    ],
)
def test_refusals(call, given, options, words):
    with pytest.raises(Refusal, match=words):
        call(*given, **options)


def test_data_that_do_not_fix_the_model_are_refused_unless_it_decays():
    flat = [np.array([[1.0, 0.0]])], [np.array([1.0])]
    with pytest.raises(Refusal, match="rank 1 of 2, and with nu = 0"):
        honest_pull(*flat, np.ones(2), lam=1.0)
    target = np.array([3.0, -4.0])
    g = honest_pull(*flat, target, lam=1.0, nu=0.1)
    bad = single_example(target, g, lam=1.0, nu=0.1)
    assert landed(flat, bad, 1.0, 0.1) == pytest.approx(target)
