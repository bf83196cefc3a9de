import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.data.partitions.identities import identities
from troth.types import Arrays, Refusal


def owned(owner):
    m = 3 if owner is None else len(owner)
    by = None if owner is None else np.array(owner)
    return Arrays(np.zeros((m, 1), np.float32), np.zeros(m, np.int64), 2, owner=by)


def test_worked_example():
    """4 owners, 2 a client: each of 2 clients has both examples of two owners."""
    arrays = owned([5, 9, 5, -1, 9, 70, 70, -1])
    lists = identities(arrays, 0, per_client=2)
    held = [set(arrays.owner[mine].tolist()) for mine in lists]
    assert [len(h) for h in held] == [2, 2] and held[0] | held[1] == {5, 9, -1, 70}
    assert [len(x) for x in lists] == [4, 4]
    lists = identities(owned(np.arange(10_177)), 0, per_client=20)
    assert len(lists) == 508 and {len(x) for x in lists} == {20}


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=60),
    st.integers(1, 11),
    st.booleans(),
    st.integers(0, 9),
)
def test_owners_go_whole(owner, number, fixed, seed):
    there = set(owner)
    number = min(number, len(there))
    options = {"per_client": number} if fixed else {"clients": number}
    arrays = owned(owner)
    lists = identities(arrays, seed, **options)
    held = [set(arrays.owner[mine].tolist()) for mine in lists]
    counts = [len(h) for h in held]
    assert sum(counts) == len(set.union(*held))  # nobody is with two
    for mine, names in zip(lists, held, strict=True):
        assert mine.tolist() == [i for i, o in enumerate(owner) if o in names]
    if fixed:
        assert counts == [number] * (len(there) // number)
    else:
        assert len(counts) == number and set.union(*held) == there
        assert max(counts) - min(counts) <= 1


def test_remaining_owners():
    """Seven owners, three per client: one owner remains."""
    arrays = owned(np.arange(7))
    for remainder, counts in (
        ("drop", [3, 3]),
        ("smaller", [3, 3, 1]),
        ("spread", [4, 3]),
    ):
        lists = identities(arrays, 0, per_client=3, remainder=remainder)
        assert [len(x) for x in lists] == counts
        assert len(np.unique(np.concatenate(lists))) == sum(counts)
    whole = identities(owned(np.arange(6)), 0, per_client=3)
    for remainder in ("smaller", "spread"):  # no owner remains
        lists = identities(owned(np.arange(6)), 0, per_client=3, remainder=remainder)
        assert [len(x) for x in lists] == [3, 3] and len(whole) == 2


def test_refuses(refuses):
    for options, words in (
        ({}, "per_client = 0 and partition.clients = 0: set one of them, to 1 to 3"),
        ({"per_client": 4}, "per_client = 4 .* set one of them, to 1 to 3, the number"),
        ({"clients": -1}, "partition.clients = -1: set one of them, to 1 to 3"),
        ({"clients": 2, "remainder": "spread"}, "goes only with partition.per_client"),
    ):
        refuses(words, identities, owned([0, 1, 2, 2]), 0, **options)
    with pytest.raises(Refusal, match="'identities' needs data with an owner"):
        identities(owned(None), 0, per_client=2)
