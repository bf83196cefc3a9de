import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from troth.federation.samplers.uniform import uniform

ALPHA = 1e-6  # how often a correct sampler fails, over the choice of the seed


@pytest.mark.parametrize(
    ("n", "cohort", "here", "rounds"),
    [(5, 2, 5, 1_500), (7, 3, 7, 1_500), (7, 2, 5, 1_000), (40, 3, 6, 1_000)],
)
def test_every_cohort_is_drawn_alike(n, cohort, here, rounds):
    """Among those that are there; distinct and ascending."""
    present = np.random.default_rng(n).permutation(n)[:here]
    there = None if here == n else lambda r, ids: np.isin(ids, present)
    draw = uniform(3, n, cohort, there)
    found = Counter(tuple(draw(r).tolist()) for r in range(rounds))
    subsets = list(itertools.combinations(sorted(present.tolist()), cohort))
    assert set(found) == set(subsets)
    assert stats.chisquare([found[s] for s in subsets]).pvalue > ALPHA


def test_every_client_is_drawn_alike():
    draw = uniform(1, 1_000, 10)
    drawn = np.stack([draw(r) for r in range(2_000)])
    assert all(len(set(row)) == 10 for row in drawn.tolist())
    assert stats.chisquare(np.bincount(drawn.ravel() // 20)).pvalue > ALPHA


def test_a_large_population_is_drawn_from_at_the_cost_of_the_cohort():
    assert len(uniform(0, 2 * 10**9, 5)(0)) == 5
