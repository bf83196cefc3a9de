import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from troth import seeding
from troth.data.partitions._homes import apportion, deal, lists


def test_by_hand():
    home = np.array([2, 0, -1, 2, 0, 2])
    assert [x.tolist() for x in lists(home, 4)] == [[1, 4], [], [0, 3, 5], []]
    assert [len(x) for x in lists(home[:0], 5)] == [0] * 5
    assert apportion(10, np.array([5.0, 3, 2])).tolist() == [5, 3, 2]
    assert apportion(10, np.ones(3)).tolist() == [4, 3, 3]
    assert apportion(10, np.array([0.0, 1.0]), 2).tolist() == [2, 8]


@given(
    st.integers(0, 1000),
    st.lists(st.floats(0, 1e6), min_size=1, max_size=20).filter(lambda w: sum(w) > 0),
    st.integers(0, 20),
)
def test_apportioned_sizes_are_near_their_shares(total, weight, least):
    w, least = np.array(weight), min(least, total // len(weight))
    sizes = apportion(total, w, least)
    exact = least + w / w.sum() * (total - least * len(w))
    assert sizes.sum() == total and sizes.min() >= least
    assert np.abs(sizes - exact).max() < 1 + 1e-6


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 9))
def test_deals_sizes_of_every_kind(kinds, seed):
    kind = np.array(kinds)
    sizes = np.stack([apportion(n, np.arange(1.0, 4)) for n in np.bincount(kind)])
    mine = deal(kind, sizes, seeding.generator(seed, "test"))
    assert np.array_equal(np.sort(np.concatenate(mine)), np.arange(len(kind)))
    for k in range(3):
        held = np.bincount(kind[mine[k]], minlength=len(sizes))
        assert held.tolist() == sizes[:, k].tolist()
