import numpy as np

from troth.data.partitions.iid import iid
from troth.types import Arrays


def test_refuses(refuses):
    arrays = Arrays(np.zeros((10, 1)), np.arange(10) % 2, 2)
    for clients in (0, -1, 11):
        words = f"partition.clients = {clients} must be 1 to 10"
        refuses(words, iid, arrays, 0, clients=clients)
