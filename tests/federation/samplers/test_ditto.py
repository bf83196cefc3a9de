import numpy as np

from troth.federation.samplers.ditto import ditto


def test_cohorts_are_those_of_the_authors():
    """Written as their code has it, with numpy's one generator; in its order."""
    size = np.random.default_rng(0).integers(30, 1400, 500)
    draw, share = ditto(10, size), [n * 1.0 / size.sum() for n in size]
    for r in (0, 1, 4_999):
        np.random.seed(r + 4)
        theirs = np.random.choice(range(500), 10, replace=False, p=share)
        assert draw(r).tolist() == theirs.tolist()
    assert sorted(ditto(10, size[:4])(0)) == [0, 1, 2, 3]
    assert sorted(ditto(10, np.array([3, 0, 5]))(0)) == [0, 2]
    even = ditto(10, size, lambda r, ids: ids % 2 == 0)(7)
    assert even.tolist() == [k for k in draw(7) if k % 2 == 0]
