import numpy as np

from troth.data.partitions.natural import natural
from troth.types import Arrays


def owned(owner):
    m = len(owner or [0])
    by = None if owner is None else np.array(owner)
    return Arrays(np.zeros((m, 1), np.float32), np.zeros(m, np.int64), 2, owner=by)


def test_clients_are_owners_in_sorted_order(refuses):
    lists = natural(owned([7, -3, 7, 20, -3, 7]))
    assert [x.tolist() for x in lists] == [[1, 4], [0, 2, 5], [3]]
    assert all(x.dtype == np.int64 for x in lists)
    refuses("needs data that say whose.*add an array owner", natural, owned(None))
