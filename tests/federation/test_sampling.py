"""Who is asked in a round.

Where a chi-square is tested, a correct sampler fails with probability 1e-6 (over the
choice of the seed; the seeds are fixed, so a test passes or fails for good).
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from troth.federation.sampling import named, published, sampler

ALPHA = 1e-6


def counted(draw: Any, rounds: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(draw(r).tolist()) for r in range(rounds))


@pytest.mark.parametrize(("n", "cohort"), [(5, 2), (7, 3)])
def test_uniform_draws_every_cohort_alike(n: int, cohort: int) -> None:
    found = counted(sampler(0, n, cohort, None), 3_000)
    subsets = list(itertools.combinations(range(n), cohort))
    assert set(found) == set(subsets)  # distinct and ascending
    assert stats.chisquare([found[s] for s in subsets]).pvalue > ALPHA


def test_uniform_draws_every_client_alike() -> None:
    draw = sampler(1, 1_000, 10, None)
    drawn = np.stack([draw(r) for r in range(2_000)])
    assert all(len(set(row)) == 10 for row in drawn.tolist())
    assert stats.chisquare(np.bincount(drawn.ravel() // 20)).pvalue > ALPHA


def law(size: np.ndarray, cohort: int) -> dict[tuple[int, ...], float]:
    """Drawn one after another, in proportion to size among those not yet drawn."""
    chances: dict[tuple[int, ...], float] = Counter()
    for order in itertools.permutations(range(len(size)), cohort):
        left, chance = float(size.sum()), 1.0
        for k in order:
            chance, left = chance * size[k] / left, left - size[k]
        chances[tuple(sorted(order))] += chance
    return chances


@pytest.mark.parametrize(
    ("size", "cohort"),
    [  # at most half: drawn again and again; more, or too rare: by a race
        ([1, 2, 3, 4, 10, 20], 2),
        ([1, 2, 3, 4, 10, 20], 3),
        ([1, 2, 3, 4, 10, 20], 5),
        ([1, 2, 1, 1, 2, 300], 3),
    ],
)
def test_by_size_is_drawn_one_after_another(size: Any, cohort: int) -> None:
    size = np.array(size)
    expected = law(size, cohort)
    found = counted(sampler(0, 6, cohort, size), 2_000)
    assert set(found) <= set(expected)  # distinct and ascending
    table = np.array([(2_000 * expected[s], found[s]) for s in expected])
    table = table[table[:, 0].argsort()]
    rare = max(1, int((table[:, 0].cumsum() < 10).sum()))  # these are one cell
    cells = np.add.reduceat(table, [0, *range(rare + 1, len(table))])
    assert cells[:, 0].min() > 5
    assert stats.chisquare(cells[:, 1], cells[:, 0]).pvalue > ALPHA


@pytest.mark.parametrize("cohort", [2, 5])
def test_by_size_includes_clients_as_often_as_numpys_choice(cohort: int) -> None:
    """Six differences of two binomials: 6 · 1e-6."""
    size, rounds = np.array([3, 2, 3, 4, 10, 20]), 2_000
    random, draw = np.random.default_rng(0), sampler(5, 6, cohort, size)
    ours, theirs = np.zeros(6), np.zeros(6)
    for r in range(rounds):
        ours[draw(r)] += 1
        theirs[random.choice(6, cohort, replace=False, p=size / size.sum())] += 1
    share = (ours + theirs) / (2 * rounds)
    z = (ours - theirs) / np.sqrt(2 * rounds * share * (1 - share))
    assert np.abs(z).max() < stats.norm.isf(ALPHA / 2)


@pytest.mark.parametrize("size", [None, np.array([5, 1, 1, 7])])
def test_a_cohort_of_all_asks_all(size: np.ndarray | None) -> None:
    for cohort in (4, 9):
        draw = sampler(0, 4, cohort, size)
        assert all(draw(r).tolist() == [0, 1, 2, 3] for r in range(3))


@pytest.mark.parametrize("cohort", [10, 60])
@pytest.mark.parametrize("by_size", [False, True])
def test_rounds_and_seeds_draw_otherwise_and_always_the_same(
    cohort: int, by_size: bool
) -> None:
    size = np.arange(1, 101) if by_size else None
    draws = [
        tuple(sampler(seed, 100, cohort, size)(r)) for seed in (0, 1) for r in range(5)
    ]
    assert len(set(draws)) == 10
    assert all(len(set(d)) == cohort == len(d) for d in draws)
    again = sampler(1, 100, cohort, size)
    assert [tuple(again(r)) for r in (4, 0)] == [draws[9], draws[5]]


def test_published_cohorts_are_those_of_the_ditto_authors() -> None:
    """Written as their code has it, with numpy's one generator; in its order."""
    size = np.random.default_rng(0).integers(30, 1400, 500)
    draw, share = published(10, size), [n * 1.0 / size.sum() for n in size]
    for r in (0, 1, 4_999):
        np.random.seed(r + 4)
        theirs = np.random.choice(range(500), 10, replace=False, p=share)
        assert draw(r).tolist() == theirs.tolist()
    assert sorted(published(10, size[:4])(0)) == [0, 1, 2, 3]
    assert sorted(published(10, np.array([3, 0, 5]))(0)) == [0, 2]
    even = published(10, size, lambda r, ids: ids % 2 == 0)(7)
    assert even.tolist() == [k for k in draw(7) if k % 2 == 0]


def test_by_name() -> None:
    size = np.arange(1, 101)
    for how, same in (
        ("uniform", sampler(3, 100, 10, None)),
        ("size", sampler(3, 100, 10, size)),
        ("ditto", published(10, size)),
    ):
        assert named(how, 3, 10, size)(2).tolist() == same(2).tolist()


def test_one_client_with_nearly_all_data() -> None:
    size = np.array([10**9] + [1] * 99)
    for cohort in (5, 60):
        drawn = sampler(0, 100, cohort, size)(0)
        assert len(set(drawn.tolist())) == cohort and drawn[0] == 0


def test_a_large_population_is_drawn_from_at_the_cost_of_the_cohort() -> None:
    assert len(sampler(0, 2 * 10**9, 5, None)(0)) == 5


# Among those that are there


def only(*clients: int) -> Any:
    return lambda r, ids: np.isin(ids, clients)


@pytest.mark.parametrize(("n", "cohort", "here"), [(7, 2, 5), (40, 3, 6), (9, 4, 6)])
def test_uniform_among_those_that_are_there(n: int, cohort: int, here: int) -> None:
    present = np.random.default_rng(n).permutation(n)[:here].tolist()
    found = counted(sampler(3, n, cohort, None, only(*present)), 1_000)
    subsets = list(itertools.combinations(sorted(present), cohort))
    assert set(found) == set(subsets)
    assert stats.chisquare([found[s] for s in subsets]).pvalue > ALPHA


@pytest.mark.parametrize(
    ("size", "cohort", "present"),
    [  # the last ones by a race: most draws are of one client, or of absent ones
        ([1, 2, 3, 4, 10, 20, 50, 7], 2, [0, 2, 3, 4, 5]),
        ([1, 2, 3, 4, 10, 20, 50, 7], 3, [1, 2, 4, 6, 7]),
        ([1, 2, 3, 4, 10, 20, 50, 7], 6, [0, 1, 2, 3, 4, 5, 7]),
        ([1, 2, 1, 1, 2, 300, 5, 5], 3, [0, 1, 2, 4, 5]),
        ([1, 2, 3, 4, 10**7, 10**7, 10**7, 3], 2, [0, 1, 2, 3, 7]),
    ],
)
def test_by_size_among_those_that_are_there(
    size: Any, cohort: int, present: list[int]
) -> None:
    """One after another, in proportion to size among those there and not yet drawn."""
    size = np.array(size)
    inside = law(size[present], cohort)
    expected = {tuple(present[k] for k in s): p for s, p in inside.items()}
    found = counted(sampler(2, 8, cohort, size, only(*present)), 1_000)
    assert set(found) <= set(expected)
    table = np.array([(1_000 * expected[s], found[s]) for s in expected])
    table = table[table[:, 0].argsort()]
    rare = max(1, int((table[:, 0].cumsum() < 10).sum()))  # these are one cell
    cells = np.add.reduceat(table, [0, *range(rare + 1, len(table))])
    assert cells[:, 0].min() > 5
    assert stats.chisquare(cells[:, 1], cells[:, 0]).pvalue > ALPHA


@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize("cohort", [1, 3, 7, 10, 99])
def test_too_few_are_all_asked(by_size: bool, cohort: int) -> None:
    size = np.arange(1, 11) if by_size else None
    for present in ([], [4], [9, 0, 3]):
        drawn = sampler(0, 10, cohort, size, only(*present))(1)
        assert drawn.dtype == np.int64
        assert len(drawn) == min(cohort, len(present))
        assert set(drawn.tolist()) <= set(present)
        assert sorted(drawn.tolist()) == drawn.tolist()


@pytest.mark.parametrize("cohort", [3, 40, 70, 100])
@pytest.mark.parametrize("by_size", [False, True])
def test_where_all_are_there_it_is_as_if_nobody_asked(
    cohort: int, by_size: bool
) -> None:
    size = np.arange(1, 101) if by_size else None
    plain = sampler(0, 100, cohort, size)
    found = sampler(0, 100, cohort, size, lambda r, ids: np.ones(len(ids), bool))
    for r in range(5):
        assert found(r).tolist() == plain(r).tolist()


@pytest.mark.parametrize("by_size", [False, True])
def test_only_whoever_is_drawn_is_looked_at(by_size: bool) -> None:
    """A tenth of a million is there: some hundreds of candidates for a cohort of 20."""
    n, looked = 10**6, []

    def there(r: int, ids: np.ndarray) -> np.ndarray:
        looked.append(len(ids))
        return ids % 10 == 0

    size = np.ones(n) if by_size else None
    draw = sampler(0, n, 20, size, there)
    for r in range(5):
        drawn = draw(r)
        assert len(set(drawn.tolist())) == 20 and (drawn % 10 == 0).all()
    assert sum(looked) < 5 * 2_000
