import numpy as np
import pytest

from troth.data.partitions.fixed_sizes import fixed_sizes
from troth.data.partitions.iid import iid
from troth.types import Arrays


def made(m):
    return Arrays(np.zeros((m, 1), np.float32), np.arange(m) % 4, 4)


def test_clients_have_their_sizes_and_share_no_example():
    lists = fixed_sizes(made(100), 3, sizes=[50, 10, 1, 20])
    assert [len(x) for x in lists] == [50, 10, 1, 20]
    assert len(np.unique(np.concatenate(lists))) == 81
    assert [x.tolist() for x in fixed_sizes(made(5), 0, sizes=[5])] == [[*range(5)]]


def test_equal_sizes_are_the_partition_iid():
    equal = fixed_sizes(made(100), 3, sizes=[10] * 10)
    assert all(map(np.array_equal, equal, iid(made(100), 3, clients=10)))


@pytest.mark.parametrize("sizes", [[], [0, 5], [-1], [60, 41]])
def test_refuses(refuses, sizes):
    refuses(
        "at least 1 example, and sum to at most 100",
        fixed_sizes,
        made(100),
        0,
        sizes=sizes,
    )
