import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.data.partitions.iid import iid
from troth.types import Arrays, Refusal


def made(m):
    return Arrays(np.zeros((m, 1), np.float32), np.arange(m) % 2, 2)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 9))
def test_every_example_has_one_home_and_shares_are_equal(m, clients, seed):
    clients = min(clients, m)
    lists = iid(made(m), seed, clients=clients)
    assert len(lists) == clients and all(x.dtype == np.int64 for x in lists)
    assert np.array_equal(np.sort(np.concatenate(lists)), np.arange(m))
    assert max(map(len, lists)) - min(map(len, lists)) <= 1


def test_refuses():
    for clients in (0, -1, 11):
        with pytest.raises(
            Refusal, match=f"partition.clients = {clients} must be 1 to 10"
        ):
            iid(made(10), 0, clients=clients)
