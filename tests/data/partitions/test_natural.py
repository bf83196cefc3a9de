import numpy as np

from troth.data.partitions.natural import natural
from troth.types import Arrays


def test_clients_are_owners_in_sorted_order(refuses):
    plain = Arrays(np.zeros((6, 1)), np.zeros(6, np.int64), 2)
    lists = natural(plain._replace(owner=np.array([7, -3, 7, 20, -3, 7])))
    assert [x.tolist() for x in lists] == [[1, 4], [0, 2, 5], [3]]
    assert all(x.dtype == np.int64 for x in lists)
    refuses("needs data with an owner.*add an array owner", natural, plain)
