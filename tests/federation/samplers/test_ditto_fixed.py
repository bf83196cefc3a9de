import numpy as np

from troth.federation.samplers.ditto_fixed import ditto_fixed


def test_cohorts_are_those_of_the_authors():
    """Written as their code has it, with numpy's one generator; in its order."""
    size = np.random.default_rng(0).integers(30, 1400, 500)
    bad = np.sort(np.random.default_rng(1).choice(500, 100, replace=False))
    hostile, good = np.isin(np.arange(500), bad), np.setdiff1d(range(500), bad)
    draw, share = ditto_fixed(10, size, hostile), size / size.sum()
    for r in (0, 1, 4_999):
        np.random.seed(r + 4)
        one = np.random.choice(bad, 2, replace=False, p=share[bad] / sum(share[bad]))
        p = share[good] / sum(share[good])
        rest = np.random.choice(good, 8, replace=False, p=p)
        assert draw(r).tolist() == [*one, *rest]


def test_the_number_of_malicious_clients_is_rounded_down():
    size, hostile = np.ones(23), np.arange(23) < 3
    for cohort, bad in ((7, 0), (8, 1), (10, 1), (23, 3), (40, 3)):
        drawn = ditto_fixed(cohort, size, hostile)(0)
        assert hostile[drawn].sum() == bad
        assert len(drawn) == min(cohort, 23) and hostile[drawn[:bad]].all()


def test_clients_without_examples_and_absent_clients_are_not_asked():
    size, hostile = (
        np.array([0, 4, 0, 5, 6]),
        np.array([True, True, False, False, False]),
    )
    assert sorted(ditto_fixed(5, size, hostile)(3)) == [1, 3, 4]
    even = ditto_fixed(5, size, hostile, lambda r, ids: ids % 2 == 0)(3)
    assert even.tolist() == [4]
