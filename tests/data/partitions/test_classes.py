import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.data.partitions.classes import classes
from troth.types import TEST, TRAIN, Arrays, Refusal


def made(labels, count, split=None):
    y = np.asarray(labels, np.int64)
    return Arrays(np.zeros((len(y), 1), np.float32), y, count, split=split)


def published(train, test, count):
    """Data with `train` and `test` examples of each class, classes taking turns."""
    labels = np.tile(np.arange(count), train + test)
    marks = np.repeat([TRAIN, TEST], [train * count, test * count]).astype(np.int8)
    return made(labels, count, marks)


def test_worked_example():
    """3 classes of 4, 3 clients of 2 classes: each class is cut in halves."""
    arrays = made(np.repeat([0, 1, 2], 4), 3)
    lists = classes(arrays, 0, clients=3, per_client=2)
    held = [np.bincount(arrays.y[x], minlength=3).tolist() for x in lists]
    assert held == [[2, 2, 0], [0, 2, 2], [2, 0, 2]]
    lists = classes(made([0, 1, 0, 1], 3), 0, clients=2, per_client=1)
    assert [x.tolist() for x in lists] == [[0, 2], [1, 3]]
    arrays = made(LABELS, 10)
    for options in ({"clients": 6}, {"clients": 5, "per_client": 6}):
        assert len(classes(arrays, 0, **options)) == options["clients"]


@given(
    st.lists(st.integers(0, 4), min_size=30, max_size=80),
    st.integers(1, 5),
    st.integers(5, 30),
    st.integers(0, 5),
)
def test_even_deals_every_example_once_and_equally(labels, per_client, clients, seed):
    arrays = made(labels, 5)
    lists = classes(arrays, seed, clients=clients, per_client=per_client)
    assert len(lists) == clients and all(x.dtype == np.int64 for x in lists)
    assert np.array_equal(np.sort(np.concatenate(lists)), np.arange(len(labels)))
    held = np.array([np.bincount(arrays.y[x], minlength=5) for x in lists])
    for u in range(clients):
        allowed = {(u + j) % 5 for j in range(per_client)}
        assert set(np.flatnonzero(held[u])) <= allowed
    for label in range(5):
        of = [u for u in range(clients) if (label - u) % 5 < per_client]
        assert held[of, label].max() - held[of, label].min() <= 1


def test_with_a_size_clients_draw_by_themselves():
    """Each client has `size` examples of its classes, and clients share examples."""
    arrays = made(np.arange(100) % 5, 5)
    lists = classes(arrays, 0, clients=7, per_client=2, size=30)
    assert [len(np.unique(x)) for x in lists] == [30] * 7
    for u, mine in enumerate(lists):
        assert set(arrays.y[mine]) == {u % 5, (u + 1) % 5}
    fewer = classes(arrays, 0, clients=3, per_client=2, size=30)
    assert all(map(np.array_equal, fewer, lists))  # others change nothing
    assert np.bincount(np.concatenate(lists)).max() > 1
    for size in (41, -1):
        with pytest.raises(Refusal, match="1 to 40, as many as client 0's classes"):
            classes(arrays, 0, clients=7, per_client=2, size=size)
    with pytest.raises(Refusal, match="size = 30 must be 0 with"):
        classes(arrays, 0, clients=7, recipe="ditto", size=30)


def test_ditto_slices_in_file_order():
    """Each client takes contiguous runs of each class, train and test apart."""
    arrays = published(600, 100, 10)
    for u, mine in enumerate(classes(arrays, 0, clients=50, recipe="ditto")):
        assert len(np.unique(mine)) == len(mine)
        assert set(arrays.y[mine]) == {(u + j) % 10 for j in range(5)}
        for mark in (TRAIN, TEST):
            for label in set(arrays.y[mine]):
                run = mine[(arrays.y[mine] == label) & (arrays.split[mine] == mark)]
                assert len(run) >= 1 and set(np.diff(run)) <= {10}


def test_ditto_counts_by_the_formula():
    """With other numbers than the authors': 7 clients, 2 of 3 classes each."""
    arrays = published(2000, 400, 3)
    lists = classes(arrays, 0, clients=7, per_client=2, recipe="ditto")
    random = np.random.RandomState(233)
    sizes = random.lognormal(3, 1, 7) + 10
    sizes *= 6000 / sizes.sum()
    for mine, size in zip(lists, sizes, strict=True):
        share = random.lognormal(1, 1, 2)
        share /= share.sum()
        trained = int(share[0] * size) + int(share[1] * size) + 2
        tested = int(share[0] * size / 6) + int(share[1] * size / 6) + 2
        assert (arrays.split[mine] == TRAIN).sum() == trained
        assert (arrays.split[mine] == TEST).sum() == tested


def test_ditto_has_the_published_numbers():
    arrays = published(6000, 1000, 10)
    lists = classes(arrays, 0, clients=500, recipe="ditto")
    for mark, total, summary, used, twice in (
        (TRAIN, 61_251, (31, 88, 122.5, 1378), 58_825, 2_426),
        (TEST, 11_254, (7, 17, 22.5, 231), 9_976, 1_278),
    ):
        mine = [x[arrays.split[x] == mark] for x in lists]
        sizes = np.array([len(x) for x in mine])
        assert sizes.sum() == total
        found = sizes.min(), np.median(sizes), round(sizes.mean(), 1), sizes.max()
        assert found == summary
        times = np.bincount(np.concatenate(mine))
        assert np.bincount(times).tolist()[1:] == [used - twice, twice]


LABELS = np.arange(100) % 10


def test_refuses(refuses):
    for count, options, words in (
        (0, {"clients": 5}, "needs data with labels and these are a regression"),
        (10, {"clients": 5, "per_client": 11}, "per_client = 11 must be 1 to 10"),
        (10, {"clients": 101}, "partition.clients = 101 must be 1 to 100"),
        (10, {"clients": 5}, "holds class 9: set .*clients to at least 6, or .* 6$"),
        (10, {"clients": 9, "per_client": 1}, "class 9: .* least 10, or .* least 2$"),
        (10, {"clients": 9, "recipe": "ditto"}, "needs data marked as training and"),
    ):
        refuses(words, classes, made(LABELS, count), 0, **options)
    small = published(60, 10, 10)
    with pytest.raises(Refusal, match="wants .* of class 0 .* there are 60: raise"):
        classes(small, 0, clients=1, recipe="ditto")


def test_random_classes():
    """Every client has per_client classes; "first" has the class of its number."""
    arrays = made(np.arange(3000) % 10, 10)
    for assign in ("first", "random"):
        lists = classes(arrays, 0, clients=40, per_client=3, assign=assign)
        held = [set(arrays.y[x].tolist()) for x in lists]
        assert [len(h) for h in held] == [3] * 40
        own = [u % 10 in h for u, h in enumerate(held)]
        assert all(own) == (assign == "first")
        assert np.array_equal(np.sort(np.concatenate(lists)), np.arange(3000))
        assert len({frozenset(h) for h in held}) > 20  # by number there are 10
        alone = classes(arrays, 0, clients=5, per_client=3, assign=assign, size=9)
        many = classes(arrays, 0, clients=7, per_client=3, assign=assign, size=9)
        assert all(map(np.array_equal, alone, many)) and len(alone[0]) == 9


def test_classes_that_no_client_holds_are_left_out_if_random():
    arrays = made(np.arange(100) % 10, 10)
    lists = classes(arrays, 0, clients=3, per_client=2, assign="random")
    held = set(arrays.y[np.concatenate(lists)].tolist())
    assert len(held) <= 6 and sum(map(len, lists)) == 10 * len(held)
    with pytest.raises(Refusal, match="assign = random must be 'number' with part"):
        classes(arrays, 0, clients=3, recipe="ditto", assign="random")
