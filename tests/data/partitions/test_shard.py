import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.data.partitions.shard import shard
from troth.types import Arrays


def made(labels, count=10):
    y = np.asarray(labels)
    return Arrays(np.zeros((len(y), 1), np.float32), y, count)


def ranks(arrays, lists):
    """Return each client's positions among the sorted labels, as if labels differ."""
    return [np.argsort(np.argsort(arrays.y))[mine] for mine in lists]


def test_fedavgs_pathological_partition():
    """60,000 sorted digits, 200 shards of 300, two for each of 100 clients."""
    arrays = made(np.arange(60_000) % 10)
    lists = shard(arrays, 0, clients=100)
    assert [len(x) for x in lists] == [600] * 100
    assert np.array_equal(np.sort(np.concatenate(lists)), np.arange(60_000))
    held = np.array([np.bincount(arrays.y[x], minlength=10) for x in lists])
    assert {*np.unique(held)} == {0, 300, 600}  # digits fill whole shards


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 5), st.integers(0, 40))
def test_a_client_holds_whole_shards(clients, per_client, seed, extra):
    """Different labels make shards visible: sorted ranks come in runs of the size."""
    m = clients * per_client * 3 + extra
    arrays = made(np.random.default_rng(seed).permutation(m), m)
    size = m // (clients * per_client)
    for options in ({"size": 0}, {"size": 3}, {"size": size}):
        wide = options["size"] or size
        lists = shard(arrays, seed, clients=clients, per_client=per_client, **options)
        seen = set()
        for mine in ranks(arrays, lists):
            starts = np.sort(mine).reshape(per_client, wide)
            assert (starts % wide == np.arange(wide)).all()
            assert (starts // wide == starts[:, :1] // wide).all()
            assert not seen & {*starts[:, 0].tolist()}
            seen |= {*starts[:, 0].tolist()}


def test_a_size_alone_uses_all_shards():
    """The sizes of flwr-datasets' examples, for 60,000 digits."""
    arrays = made(np.arange(60_000) % 10)
    sizes = [len(x) for x in shard(arrays, 0, clients=9, per_client=0, size=1000)]
    assert sizes == [7000] * 6 + [6000] * 3
    options = {"per_client": 0, "size": 990, "incomplete": True}
    sizes = [len(x) for x in shard(arrays, 0, clients=10, **options)]
    assert sum(sizes) == 60_000  # 60 whole shards and one of 600
    assert set(sizes) <= {5550, 5940, 6540, 6930}
    whole = [len(x) for x in shard(arrays, 0, clients=10, per_client=0, size=990)]
    assert whole == [5940] * 10


def test_one_shard_of_a_regression_is_a_range_of_labels():
    y = np.random.default_rng(0).normal(size=90).astype(np.float32)
    lists = shard(made(y, 0), 1, clients=3, per_client=1)
    ends = sorted((y[x].min(), y[x].max()) for x in lists)
    assert ends[0][1] < ends[1][0] and ends[1][1] < ends[2][0]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"clients": 0}, "clients = 0 must be 1 to 40"),
        ({"clients": 4, "per_client": -1}, "per_client = -1 .* at least 0"),
        ({"clients": 4, "per_client": 0}, "per_client = 0 .* one of them above 0"),
        ({"clients": 4, "size": 6}, "40 examples give 6 shards of 6, and .* need 8"),
        ({"clients": 9, "per_client": 5}, "give 40 shards of 1, .* need 45: lower"),
        ({"clients": 4, "incomplete": True}, "only with partition.per_client = 0"),
    ],
)
def test_refuses(refuses, options, words):
    refuses(words, shard, made(np.arange(40) % 4, 4), 0, **options)


def test_refuses_several_labels(refuses):
    refuses("several labels per example", shard, made(np.eye(4), 4), 0, clients=2)
