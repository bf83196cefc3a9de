import numpy as np
import pytest
import torch

from troth.data import preprocess
from troth.data.corrupt import Corruption
from troth.types import Arrays

SIZES = [(5, 2, 3), (4, 0, 4), (9, 3, 1)]  # train, valid, test of each client
M = sum(map(sum, SIZES))
CPU = torch.device("cpu")


def arrays(kind=np.uint8, classes=4):
    x = (np.arange(M * 6).reshape(M, 1, 2, 3) % 250).astype(kind)
    y = np.arange(M) % classes if classes else np.linspace(0, 1, M)
    return Arrays(x, y, classes)


@pytest.fixture
def shards(shards_of):
    return shards_of(SIZES)


@pytest.fixture
def deal(shards):
    def dealt(given, corrupt=None, hostile=(), seed=0, dtype=torch.float32, **more):
        mask = np.isin(np.arange(len(SIZES)), hostile)
        how = Corruption(corrupt, given.classes, **more) if corrupt else None
        raw = preprocess.Raw(given, shards, dtype, CPU, mask, how, seed)
        return preprocess.as_tensors(raw)

    return dealt


def own(split, client):
    first = int(split.start[client])
    return slice(first, first + int(split.size[client]))


def brighter(x, y, key):
    return x + 1, y


def test_types_and_precision(deal):
    for kind, dtype, expected in (
        (np.uint8, torch.float32, torch.uint8),
        (np.uint8, torch.float64, torch.uint8),
        (np.float32, torch.float64, torch.float64),
        (np.float64, torch.float32, torch.float32),
        (np.float64, torch.float64, torch.float64),
    ):
        same = deal(arrays(kind), dtype=dtype)
        assert same.x.dtype == expected
        wide = deal(arrays(kind), lambda x, y, key: (x.double(), y), [0], dtype=dtype)
        assert wide.x.dtype == expected
        assert torch.equal(wide.x[wide.train.row], same.x[same.train.row])
    assert deal(arrays(classes=0), dtype=torch.float64).train.y.dtype == torch.float64
    assert deal(arrays(classes=0)).test.y.dtype == torch.float32
    assert deal(arrays()).train.y.dtype == torch.int64


def test_changed_inputs_become_new_rows_of_that_client_alone(deal):
    clean, data = deal(arrays()), deal(arrays(), brighter, [0, 2])
    assert len(data.x) == M + 5 + 9
    new = []
    for client in (0, 2):
        mine = own(data.train, client)
        before = clean.x[clean.train.row[mine]]
        assert torch.equal(data.x[data.train.row[mine]], before + 1)
        new += data.train.row[mine].tolist()
    assert sorted(new) == list(range(M, M + 14))
    for data in (deal(arrays(), brighter, []), deal(arrays(), None, [0])):
        assert torch.equal(data.x, clean.x)
        assert torch.equal(data.train.y, clean.train.y)
    given = arrays(np.float32)
    before = given.x.copy()
    deal(given, brighter, [0, 1, 2]).train.y.fill_(0)
    assert (given.x == before).all() and (given.y == np.arange(M) % 4).all()


def test_another_number_of_examples_follows_the_rest(deal):
    for k in (0, 1, 6):

        def other(x, y, key, k=k):
            return torch.full((k, *x.shape[1:]), 77, dtype=x.dtype), y.new_full((k,), 2)

        clean, data = deal(arrays()), deal(arrays(), other, [0, 2], share=0.4)
        train = data.train
        assert train.size.tolist() == [5 - 2 + k, 4, 9 - 4 + k]
        assert train.start.tolist() == [0, 3 + k, 7 + k]
        assert len(train.row) == len(train.y) == 12 + 2 * k
        for client, rest in ((0, 3), (1, 4), (2, 5)):
            mine, before = own(train, client), own(clean.train, client)
            kept = train.row[mine][:rest].tolist()
            assert [r for r in clean.train.row[before].tolist() if r in kept] == kept
            assert torch.equal(data.x[kept], clean.x[kept])
            assert train.y[mine][:rest].tolist() == arrays().y[kept].tolist()
            assert bool((data.x[train.row[mine][rest:]] == 77).all())
            assert bool((train.y[mine][rest:] == 2).all())
        assert torch.equal(data.test.row, clean.test.row)
        assert torch.equal(data.valid.y, clean.valid.y)
        nothing = deal(arrays(), lambda x, y, key: (x[:0], y[:0]), [1])
        assert nothing.train.size.tolist() == [5, 0, 9] and len(nothing.train.row) == 14


@pytest.fixture
def redrawing(shards):
    def made(corrupt, **more):
        mask, given = np.array([True, False, True]), (arrays(), shards, torch.float32)
        how = Corruption(corrupt, 4, redraw=True, **more)
        raw = preprocess.Raw(*given, CPU, mask, how, 0)
        data = preprocess.as_tensors(raw)
        return data, preprocess.Redraw(raw, data)

    return made


def test_every_redraw_begins_with_clean_data(deal, redrawing):
    """What adds 1 adds 1 and no more; where it adds nothing, 1 is taken back."""
    calls = []

    def now_and_then(x, y, key):
        calls.append(1)
        return (x.add_(1) if len(calls) in (1, 2, 5, 6) else x), y

    clean = deal(arrays())
    data, redraw = redrawing(now_and_then)
    for round_, more in ((1, 0), (2, 1)):
        redraw(round_, np.arange(3))
        mine = own(data.train, 0)
        found = data.x[data.train.row[mine]]
        assert torch.equal(found, clean.x[clean.train.row[mine]] + more)


def test_poisoned_inputs_have_the_group_of_what_they_stand_for(deal, shards):
    given = arrays()._replace(group=np.arange(M) % 5)
    clean, data = deal(given), deal(given, brighter, [0, 2])
    assert len(data.group) == len(data.x) > M
    for client in (0, 1, 2):
        a, b = (d.group[d.train.row[own(d.train, client)]] for d in (clean, data))
        assert a.tolist() == b.tolist()

    def twice(x, y, key):
        return torch.cat([x, x]), torch.cat([y, y])

    data = deal(given, twice, [0])  # of another number: that of the first
    rows = data.train.row[own(data.train, 0)]
    first = given.group[shards.train[0][0]]
    assert len(data.group) == len(data.x) and (data.group[rows] == first).all()
    assert not len(deal(arrays(), twice, [0]).group)
