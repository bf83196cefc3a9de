"""Every client draws its own examples."""

import numpy as np

from troth.data.partitions.draws import draws
from troth.types import Arrays


def arrays(m=40):
    return Arrays(np.zeros((m, 2), np.float32), np.arange(m) % 4, 4)


def test_sizes_are_kept_and_all_of_it_is_a_permutation():
    lists = draws(arrays(), 0, sizes=[3, 40, 1])
    assert [len(mine) for mine in lists] == [3, 40, 1]
    assert np.array_equal(lists[1], np.arange(40))


def test_clients_draw_apart_from_each_other():
    """A pair shares 250·250/1000 = 62.5 examples on average, sd 5.9: never 25 or 100.

    Chebyshev's bound would be weak; the hypergeometric tail beyond 6 sd is below 1e-8.
    """
    lists = draws(arrays(1000), 1, sizes=[250] * 6)
    for i in range(6):
        assert all(25 < len(np.intersect1d(lists[i], lists[j])) < 100 for j in range(i))
    fewer = draws(arrays(1000), 1, sizes=[250] * 3)
    assert all(map(np.array_equal, fewer, lists))  # one more changes no other


def test_refusals(refuses):
    for sizes in ([], [0], [3, -1], [41]):
        refuses("a number of examples from 1 to 40", draws, arrays(), 0, sizes=sizes)
