"""What holds for every corruption there is."""

import itertools

import numpy as np
import pytest
import torch

from troth import lookup, seeding
from troth.config.schema import CorruptionPart
from troth.data import corrupt, preprocess
from troth.types import Arrays, Refusal

NAMES = lookup.names("corruption")
CPU = torch.device("cpu")
SIZES = [(10, 2, 3), (7, 1, 4), (1, 0, 2), (0, 0, 1), (23, 2, 2)]
N, M = len(SIZES), sum(map(sum, SIZES))
HOSTILE = np.array([True, False, True, True, True])
KINDS = ["bytes", "float32", "float64", "two", "several"]


def arrays(kind):
    random = np.random.default_rng(3)
    classes = 2 if kind == "two" else 5
    x = random.integers(0, 256, (M, 2, 6, 5)).astype(np.uint8)
    if kind.startswith("float"):
        x = (x / 255).astype(kind)
    y = random.integers(0, classes, M)
    if kind == "several":
        y = random.integers(0, 2, (M, classes))
    return Arrays(x, y, classes, 255.0 if x.dtype == np.uint8 else 1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file of six examples for each kind of data."""
    path = tmp_path_factory.mktemp("files")
    for kind in KINDS:
        like, random = arrays(kind), np.random.default_rng(9)
        x = random.permutation(like.x[:6].reshape(-1)).reshape(like.x[:6].shape)
        np.savez(path / f"{kind}.npz", x=x, y=random.permutation(like.y[:6]))
    return path


def part(name, kind, folder, **keys):
    given = {"path": str(folder / f"{kind}.npz")} if name == "from_file" else {}
    return CorruptionPart(name, lookup.check("corruption", name, given), **keys)


@pytest.fixture
def deal(shards_of):
    def dealt(kind, named, seed=0):
        given, shards = arrays(kind), shards_of(SIZES)
        how = corrupt.corruption(named, given) if named else None
        dtype = torch.float64 if kind == "float64" else torch.float32
        raw = preprocess.Raw(given, shards, dtype, CPU, HOSTILE, how, seed)
        return preprocess.as_tensors(raw)

    return dealt


def same(a, b):
    return torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_only_training_data_of_hostile_clients_change(name, kind, folder, deal, held):
    """And shapes, types and ranges are kept."""
    clean = deal(kind, None)
    for redraw in (False, True):
        data = deal(kind, part(name, kind, folder, redraw=redraw))
        both = clean, data
        for client in range(N):
            for split in ("valid", "test"):
                assert same(*(held(d, getattr(d, split), client) for d in both))
            assert same(*(held(d, d.train, client) for d in both)) or HOSTILE[client]
        assert torch.equal(data.x[:M], clean.x)
        for k in (0, 4):
            assert not same(held(clean, clean.train, k), held(data, data.train, k))
        assert data.x.dtype == clean.x.dtype and data.x.shape[1:] == clean.x.shape[1:]
        for a, b in zip(clean.train, data.train, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(clean.train.size, data.train.size)
        assert bool(data.x.isfinite().all())
        most = 1 if kind == "several" else arrays(kind).classes - 1
        assert int(data.train.y.min()) >= 0 and int(data.train.y.max()) <= most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_the_share_is_exact(name, kind, folder, deal, held):
    """At most ⌈share·m⌉ examples change, at places that the seed decides.

    The member sees those and no others, so its result is what it makes of them alone.
    """
    clean = deal(kind, None)
    for share, redraw in itertools.product((0.01, 0.3, 0.5, 1.0), (False, True)):
        named = part(name, kind, folder, share=share, redraw=redraw)
        data, how = deal(kind, named), corrupt.corruption(named, arrays(kind))
        for client in np.flatnonzero(HOSTILE):
            (x, y), (new_x, new_y) = (held(d, d.train, client) for d in (clean, data))
            m = len(y)
            count = min(m, max(1, -int(-share * m // 1)))
            who = torch.tensor([int(client)])
            order = seeding.permute(
                seeding.keys(0, "chosen", 0, who).numpy(),
                np.arange(count),
                np.array([max(1, m)]),
            )
            chosen = torch.from_numpy(np.sort(order)) if m else torch.arange(0)
            rest = torch.ones(m, dtype=torch.bool)
            rest[chosen] = False
            assert len(chosen) == count
            assert same((x[rest], y[rest]), (new_x[rest], new_y[rest]))
            key = seeding.keys(0, "corruption", 0, who)[0]
            alone = how.corrupt(x[chosen], y[chosen], key)
            assert same(alone, (new_x[chosen], new_y[chosen]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_and_what_is_given_stays(name, kind, folder, deal, held):
    named, given = part(name, kind, folder, share=0.4), arrays(kind)
    first, again, other = (deal(kind, named, seed) for seed in (5, 5, 6))
    for a, b in zip((first.x, *first.train), (again.x, *again.train), strict=True):
        assert torch.equal(a, b)
    pairs = [[held(d, d.train, k) for d in (first, other)] for k in (0, 4)]
    assert not all(same(*pair) for pair in pairs)  # others were chosen
    x, y = corrupt.tensors(given, torch.float64)
    before = x.clone(), y.clone()
    how = corrupt.corruption(named, given)
    new = how.corrupt(x, y, torch.tensor(12345))
    assert same((x, y), before)
    assert new[1].data_ptr() != y.data_ptr() or torch.equal(new[1], y)
    assert new[0].dtype == x.dtype and new[1].dtype == y.dtype
    for m in (0, 1):  # few examples, and none
        new = how.corrupt(x[:m], y[:m], torch.tensor(7))
        assert new[0].shape == x[:m].shape and new[1].shape == y[:m].shape


def test_who_says_what_it_assumes_and_needs_classes():
    docs = {name: lookup.find("corruption", name).__doc__ or "" for name in NAMES}
    parts = "Threat model:", "controls"
    wrong = [n for n, d in docs.items() if not all(part in d for part in parts)]
    assert not wrong
    given = Arrays(np.zeros((4, 1, 5, 5)), np.zeros(4), 0)
    x, y = corrupt.tensors(given, torch.float64)
    for name in ("auto", "random_labels", "shift_labels", "backdoor"):
        full = lookup.check("corruption", name, {})
        how = corrupt.corruption(CorruptionPart(name, full), given)
        with pytest.raises(Refusal, match="regression; set corruption.name to another"):
            how.corrupt(x, y, torch.tensor(0))
