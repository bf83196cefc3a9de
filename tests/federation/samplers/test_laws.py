"""What holds of every sampler."""

import numpy as np
import pytest

from troth import lookup
from troth.federation.sampling import named

EVERY = pytest.mark.parametrize("how", lookup.names("sampler"))
KEYED = pytest.mark.parametrize("how", ["uniform", "size"])  # by the run's seed


@EVERY
def test_a_cohort_of_all_asks_all(how):
    for cohort in (4, 9):
        draw = named(how, 0, cohort, np.array([5, 1, 1, 7]))
        assert all(sorted(draw(r).tolist()) == [0, 1, 2, 3] for r in range(3))


@KEYED
@pytest.mark.parametrize("cohort", [10, 60])
def test_rounds_and_seeds_draw_otherwise_and_always_the_same(how, cohort):
    size = np.arange(1, 101)
    draws = [tuple(named(how, s, cohort, size)(r)) for s in (0, 1) for r in range(5)]
    assert len(set(draws)) == 10
    assert all(len(set(d)) == cohort == len(d) for d in draws)
    again = named(how, 1, cohort, size)
    assert [tuple(again(r)) for r in (4, 0)] == [draws[9], draws[5]]


@KEYED
@pytest.mark.parametrize("cohort", [1, 3, 7, 10, 99])
def test_too_few_are_all_asked(how, cohort):
    for present in ([], [4], [9, 0, 3]):
        there = lambda r, ids: np.isin(ids, present)  # noqa: B023, E731
        drawn = named(how, 0, cohort, np.arange(1, 11), there)(1)
        assert drawn.dtype == np.int64
        assert len(drawn) == min(cohort, len(present))
        assert set(drawn.tolist()) <= set(present)
        assert sorted(drawn.tolist()) == drawn.tolist()


@EVERY
@pytest.mark.parametrize("cohort", [3, 40, 70, 100])
def test_where_all_are_there_it_is_as_if_nobody_asked(how, cohort):
    size = np.arange(1, 101)
    plain = named(how, 0, cohort, size)
    found = named(how, 0, cohort, size, lambda r, ids: np.ones(len(ids), bool))
    for r in range(5):
        assert found(r).tolist() == plain(r).tolist()


@KEYED
def test_only_whoever_is_drawn_is_looked_at(how):
    """A tenth of a million is there: some hundreds of candidates for a cohort of 20."""
    n, looked = 10**6, []

    def there(r, ids):
        looked.append(len(ids))
        return ids % 10 == 0

    draw = named(how, 0, 20, np.ones(n), there)
    for r in range(5):
        drawn = draw(r)
        assert len(set(drawn.tolist())) == 20 and (drawn % 10 == 0).all()
    assert sum(looked) < 5 * 2_000
