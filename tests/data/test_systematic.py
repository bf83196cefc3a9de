from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import seeding
from troth.data.split import deal, pairs, sizes_of
from troth.types import TEST, TRAIN, VALID

fractions = st.tuples(
    st.floats(0.01, 1), st.one_of(st.just(0.0), st.floats(0, 1)), st.floats(0.01, 1)
).map(lambda p: tuple(v / sum(p) for v in p))


def alone(labels, parts, random) -> np.ndarray:
    """The same as `deal`, written for one client."""
    _, code = np.unique(labels, return_inverse=True)
    row = random.permutation(len(labels))
    row = row[np.argsort(random.permutation(len(labels))[code[row]], kind="stable")]
    part = np.full(len(labels), TRAIN)
    sizes = sizes_of(len(labels), parts)
    for mark in (TEST, VALID):
        count, start = sizes[mark], random.integers(max(len(row), 1))
        taken = (np.arange(count) * len(row) + start) // max(count, 1)
        part[row[taken]] = mark
        row = np.delete(row, taken)
    return part


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 4), max_size=30), min_size=1, max_size=6),
    fractions,
    st.integers(0, 9),
)
def test_all_at_once_is_one_by_one(labels, parts, seed):
    number = np.arange(len(labels)) * 5 + 2
    client = np.repeat(np.arange(len(labels)), [len(mine) for mine in labels])
    flat = np.array([label for mine in labels for label in mine], np.int64)
    part = deal(flat, client, number, parts, seed)
    for k, mine in enumerate(labels):
        random = seeding.generator(seed, "split", int(number[k]))
        expected = alone(np.array(mine, np.int64), parts, random)
        assert part[client == k].tolist() == expected.tolist()


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=60), fractions, st.integers(0, 9)
)
def test_laws_of_dealing(labels, parts, seed):
    labels = np.array(labels)
    one = np.zeros(len(labels), np.int64)
    part = deal(labels, one, np.array([seed]), parts, seed)
    m, count = len(labels), np.bincount(part, minlength=3)
    assert count.sum() == m and count[TRAIN] >= 1 and count[TEST] >= 1
    off = 1 if min(parts[TRAIN], parts[TEST]) * m >= 1 else 2  # none may be empty
    assert all(abs(count[i] - parts[i] * m) <= off + 1e-6 for i in range(3))
    for label in np.unique(labels):
        mine = part[labels == label]
        share = len(mine) * count / m
        tested = (mine == TEST).sum()
        assert math.floor(share[TEST]) <= tested <= math.ceil(share[TEST])
        assert all(abs((mine == i).sum() - share[i]) < 2 for i in (TRAIN, VALID))


def test_results_stay_what_they_were():
    """As the first release dealt, so that runs can be repeated."""
    labels = np.arange(20) * 7 % 5
    part = deal(labels, np.arange(20) // 10, np.arange(2), (0.6, 0.2, 0.2), 0)
    assert part.tolist() == [0, 1, 0, 2, 0, 2, 0, 1, 0, 0, 1, 0, 2, 0, 0, 0, 2, 1, 0, 0]


def test_pairs_by_hand():
    client, value = np.array([0, 0, 0, 1, 1]), np.array([9, 4, 9, 9, -2])
    first, code = pairs(client, value)
    assert first.tolist() == [1, 0, 4, 3] and code.tolist() == [1, 0, 1, 3, 2]
