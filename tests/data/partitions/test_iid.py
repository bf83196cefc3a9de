import numpy as np
import pytest

from troth.data.partitions.iid import iid
from troth.types import Arrays, Refusal


def made(m):
    return Arrays(np.zeros((m, 1), np.float32), np.arange(m) % 2, 2)


def test_refuses():
    for clients in (0, -1, 11):
        with pytest.raises(
            Refusal, match=f"partition.clients = {clients} must be 1 to 10"
        ):
            iid(made(10), 0, clients=clients)
