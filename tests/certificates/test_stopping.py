"""Sound at any stopping time. Counts are drawn from the binomial that a binary linear

classifier has, p_A = Φ(distance/σ), so that the true radius is the distance. Shares are
held against α plus four standard errors: a sound method fails a test with probability
3e-5 at most (over the choice of the seed, not over runs).
"""

import math

import numpy as np
import pytest
from scipy import stats

from troth.certificates import bounds, stopping
from troth.certificates.stopping import Question

GRID = tuple(np.linspace(0, 3, 10).tolist())  # of σ = 1
LIMITS = {"normal": 12_300, "even": 11_700}  # samples; α split evenly: 13,554, 12,939
QUESTIONS = {
    "fixed": Question(),
    "radii": Question(radii=GRID),
    "within": Question(tolerance=0.01),
}


def radius(p):
    return bounds.radius(p, 1.0, "normal")


def drawn(p, plan, question, seed=0, tile=100):
    """Votes of samples in tiles, the same whatever is asked of them."""
    random = np.random.default_rng(seed)
    votes = random.binomial(tile, p[:, None], (len(p), -(-int(plan.n[-1]) // tile)))

    def draw(on, first, last):
        assert first % tile == 0
        return votes[on, first // tile : -(-last // tile)].sum(axis=1)

    return stopping.bound(draw, len(p), plan, question, radius)


@pytest.mark.parametrize("n", [1, 99, 100, 101, 1000, 12_345])
@pytest.mark.parametrize("adaptive", [False, True])
def test_checks_are_at_whole_tiles_and_at_the_end(n, adaptive):
    plan = stopping.plan(n, 0.01, min(100, n), adaptive)
    assert (np.diff(plan.n) > 0).all() and plan.least.shape == (
        len(plan.n),
        len(plan.p),
    )
    assert plan.n[-1] == n and (plan.n[:-1] % 100 == 0).all()
    assert len(plan.n) == 1 or adaptive
    assert len(plan.n) < 10 + 11 * math.log(1 + n / 100)


def failure(plan, p):
    """P(some check proves more than p), by the distribution of votes of every path."""
    mass, total, before = {0: 1.0}, 0.0, 0
    for k, n in enumerate(plan.n.tolist()):
        more = stats.binom.pmf(np.arange(n - before + 1), n - before, p)
        after, before = dict.fromkeys(range(n + 1), 0.0), n
        for s, chance in mass.items():
            for j, one in enumerate(more):
                after[s + j] += chance * one
        wrong = plan.lower(np.arange(n + 1), k) > p
        total += sum(c for s, c in after.items() if wrong[s])
        mass = {s: c for s, c in after.items() if c and not wrong[s]}
    return total


def test_the_worst_stopping_rule_fails_with_nearly_alpha():
    """Exact, without simulation. Sharing α by the union bound leaves a third of it."""
    plan = stopping.plan(400, 0.05, 20, True)
    assert len(plan.n) == 15
    just_below = np.nextafter(plan.p[plan.p > 0], 0)[:: len(plan.p) // 12]
    found = np.array([failure(plan, p) for p in just_below])
    assert found.max() <= 0.05
    inner = found[just_below < 0.9]  # near 1, numbers of votes are too coarse
    assert inner.min() > 0.85 * 0.05 and inner.mean() > 0.9 * 0.05
    between = (plan.p[100:-1:150] + plan.p[101::150]) / 2
    assert max(failure(plan, p) for p in between) <= 0.05


def test_every_probability_asked_for_can_be_proven_exactly():
    asked = (0.6123, 0.9, 0.99)
    plan = stopping.plan(1000, 0.01, 100, True, (*asked, 0.3, 1.2))
    assert {*asked} < {*plan.p.tolist()} and plan.p.min() >= 0.5 and plan.p.max() < 1
    assert (np.diff(plan.least, axis=1) >= 0).all()
    for k, n in enumerate(plan.n.tolist()):
        votes = np.arange(n + 1)
        assert (np.diff(plan.lower(votes, k)) >= 0).all()
        for q, need in zip(plan.p[::97], plan.least[k, ::97], strict=True):
            assert (plan.lower(votes, k) >= q).sum() == max(0, n + 1 - need)


def test_a_fixed_plan_is_the_published_bound():
    plan = stopping.plan(1000, 0.01, 1000, adaptive=False)
    found = drawn(np.array([0.9]), plan, Question(), tile=1000)
    assert found.p[0] == bounds.lower(found.votes, 1000, 0.01)[0]
    assert found.used.tolist() == [1000] and found.settled.all()


@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize("p", [0.5, 0.9, 0.999])
def test_the_same_where_each_is_as_hard_as_can_be(asked, p):
    """Every certificate has the same p; ½ must hardly ever be given a class."""
    m, alpha = 5000, 0.05
    plan = stopping.plan(2000, alpha, 100, asked != "fixed")
    found = drawn(np.full(m, p), plan, QUESTIONS[asked], seed=2)
    assert (found.p > p).mean() <= alpha + 4 * math.sqrt(alpha * (1 - alpha) / m)


def test_it_holds_for_whoever_stops_in_the_worst_moment():
    """The largest bound over all looks: what an adversary could pick."""
    m, alpha, p = 5000, 0.05, 0.8
    plan = stopping.plan(5000, alpha, 100, adaptive=True)
    never = Question(radii=(0.0, 9.0))  # 9σ is given up at once, 0 soon proven
    assert len(plan.n) > 10
    random = np.random.default_rng(3)
    steps = np.diff(plan.n, prepend=0)
    votes = np.cumsum(random.binomial(steps, p, (m, len(steps))), axis=1)
    every = [plan.lower(votes[:, k], k) for k in range(len(steps))]
    ever = np.max(every, axis=0)
    assert (ever > p).mean() <= alpha + 4 * math.sqrt(alpha * (1 - alpha) / m)
    assert (bounds.lower(votes, plan.n, alpha).max(axis=1) > p).mean() > alpha  # naive
    assert drawn(np.full(9, p), plan, never).settled.all()


@pytest.mark.parametrize("asked", ["fixed", "within"])
def test_certificates_are_not_timid(asked):
    """Median of radius/truth where p_A ∈ [.7, .99]."""
    p = np.random.default_rng(4).uniform(0.7, 0.99, 2000)
    plan = stopping.plan(1000, 0.01, 100, asked != "fixed")
    found = drawn(p, plan, QUESTIONS[asked], seed=4)
    ratio = radius(found.p) / stats.norm.ppf(p)
    assert np.median(ratio) >= 0.85


@pytest.mark.parametrize("spread", ["normal", "even"])
def test_the_same_answers_with_a_tenth_of_the_samples(spread):
    """Ten radii over [0, 3σ], n = 100,000, α = .001; the same samples in both."""
    random = np.random.default_rng(5)
    z = (
        random.normal(1.5, 1, 2000)
        if spread == "normal"
        else random.uniform(-1, 4, 2000)
    )
    p = stats.norm.cdf(z)
    fixed = drawn(p, stopping.plan(100_000, 0.001, 1000, False), Question(), tile=1000)
    needed = tuple((stats.norm.cdf(np.maximum(GRID, 1e-6)) + 1e-12).tolist())
    plan = stopping.plan(100_000, 0.001, 1000, True, needed)
    found = drawn(p, plan, Question(radii=GRID), tile=1000)
    assert found.used.mean() < LIMITS[spread]
    one, two = (
        (radius(f.p)[:, None] >= GRID) & (f.p > 0.5)[:, None] for f in (fixed, found)
    )
    assert np.abs(one.mean(axis=0) - two.mean(axis=0)).max() <= 0.005


def test_a_radius_to_within_a_tolerance():
    """Settled: 95 % of what the same samples to the end prove, at the least."""
    p = np.random.default_rng(6).uniform(0.7, 0.99, 500)
    plan = stopping.plan(20_000, 0.001, 100, True)
    end = drawn(p, plan, Question(radii=(100.0,), tolerance=0.0), seed=6)
    fixed = stopping.plan(20_000, 0.35 * 0.001, 100, False)
    whole = drawn(p, fixed, Question(), seed=6)
    found = drawn(p, plan, Question(tolerance=0.05), seed=6)
    assert end.used.max() == 100  # a radius out of reach is given up at the first look
    assert found.settled.mean() > 0.9 and found.used.mean() < 15_000
    mine, most = (radius(f.p) for f in (found, whole))
    assert (mine >= 0.95 * most)[found.settled].mean() > 0.9


def test_what_is_settled():
    ask = Question(radii=(0.0, 1.0, 2.0))
    proven, reach = np.array([[0.0, 0.0, 0.5, 1.0, 2.5], [0.0, 0.4, 0.9, 2.0, 3]])
    assert ask.settled(proven, reach).tolist() == [True, False, True, False, True]
    close = Question(tolerance=0.1).settled(*np.array([[0.89, 0.9, 0], [1, 1, 0]]))
    assert close.tolist() == [False, True, True]
    assert not Question().settled(proven, reach).any()


def test_what_is_in_reach():
    plan = stopping.plan(1000, 0.01, 100, True)
    far = stopping.reach(np.array([0, 50, 100]), 0, plan)
    assert radius(far)[0] == 0 < radius(far)[1] < radius(far)[2]
    assert far[2] == plan.lower(np.array(1000), len(plan.n) - 1) > plan.p[-5]


def test_the_words_of_a_question():
    assert Question().words() == "" and not Question().open
    assert Question((0.5, 1.0)).words() == "0.5;1.0"
    assert Question(tolerance=0.01).words() == "within 0.01"
