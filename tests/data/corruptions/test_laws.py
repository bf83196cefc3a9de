"""What holds for every corruption there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup, seeding
from troth.config.schema import CorruptionPart
from troth.data import corrupt, tensors
from troth.types import Arrays, Data, Shards, Split

NAMES = lookup.names("corruption")
CPU = torch.device("cpu")
SIZES = [(10, 2, 3), (7, 1, 4), (1, 0, 2), (0, 0, 1), (23, 2, 2)]
N, M = len(SIZES), sum(map(sum, SIZES))
HOSTILE = np.array([True, False, True, True, True])
KINDS = ["bytes", "float32", "float64", "two", "several"]
SHARES = [0.01, 0.3, 0.5, 1.0]


def arrays(kind: str) -> Arrays:
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of six examples for each kind of data."""
    path = tmp_path_factory.mktemp("files")
    for kind in KINDS:
        like, random = arrays(kind), np.random.default_rng(9)
        x = random.permutation(like.x[:6].reshape(-1)).reshape(like.x[:6].shape)
        np.savez(path / f"{kind}.npz", x=x, y=random.permutation(like.y[:6]))
    return path


def part(name: str, kind: str, folder: Path, **keys: Any) -> CorruptionPart:
    given = {"path": str(folder / f"{kind}.npz")} if name == "from_file" else {}
    return CorruptionPart(name, lookup.check("corruption", name, given), **keys)


def shards() -> Shards:
    rows = iter(np.random.default_rng(0).permutation(M))
    made = Shards([], [], [])
    for sizes in SIZES:
        for part, size in zip(made[:3], sizes, strict=True):
            part.append(np.array([next(rows) for _ in range(size)], dtype=np.int64))
    return made


def deal(kind: str, named: CorruptionPart | None, seed: int = 0) -> Data:
    given = arrays(kind)
    how = corrupt.corruption(named, given) if named else None
    dtype = torch.float64 if kind == "float64" else torch.float32
    return tensors.deal(given, shards(), dtype, CPU, HOSTILE, how, seed)


def held(data: Data, split: Split, client: int) -> tuple[Tensor, Tensor]:
    first = int(split.start[client])
    own = slice(first, first + int(split.size[client]))
    return data.x[split.row[own]], split.y[own]


def same(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> bool:
    return torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_only_training_data_of_hostile_clients_change(
    name: str, kind: str, redraw: bool, folder: Path
) -> None:
    clean, data = deal(kind, None), deal(kind, part(name, kind, folder, redraw=redraw))
    for client in range(N):
        for split in ("valid", "test"):
            pair = (held(d, getattr(d, split), client) for d in (clean, data))
            assert same(*pair)
        if not HOSTILE[client]:
            assert same(*(held(d, d.train, client) for d in (clean, data)))
    assert torch.equal(data.x[:M], clean.x)
    changed = [
        not same(held(clean, clean.train, k), held(data, data.train, k)) for k in (0, 4)
    ]
    assert all(changed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_shapes_types_and_ranges_are_kept(name: str, kind: str, folder: Path) -> None:
    clean, data = deal(kind, None), deal(kind, part(name, kind, folder))
    assert data.x.dtype == clean.x.dtype and data.x.shape[1:] == clean.x.shape[1:]
    for a, b in zip(clean.train, data.train, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
    assert torch.equal(clean.train.size, data.train.size)
    assert bool(data.x.isfinite().all())
    most = 1 if kind == "several" else arrays(kind).classes - 1
    assert int(data.train.y.min()) >= 0 and int(data.train.y.max()) <= most


@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_the_share_is_exact(
    name: str, kind: str, share: float, redraw: bool, folder: Path
) -> None:
    """At most ⌈share·m⌉ examples change, at places that the seed decides.

    The member sees those and no others, so its result is what it makes of them alone.
    """
    named = part(name, kind, folder, share=share, redraw=redraw)
    clean, data = deal(kind, None), deal(kind, named)
    how = corrupt.corruption(named, arrays(kind))
    assert how is not None
    for client in np.flatnonzero(HOSTILE):
        (x, y), (new_x, new_y) = (held(d, d.train, client) for d in (clean, data))
        m = len(y)
        count = min(m, max(1, -int(-share * m // 1)))
        keys = {
            what: seeding.keys(0, what, 0, torch.tensor([int(client)]))
            for what in ("chosen", "corruption")
        }
        order = seeding.permute(
            keys["chosen"].numpy(), np.arange(count), np.array([max(1, m)])
        )
        chosen = torch.from_numpy(np.sort(order)) if m else torch.arange(0)
        rest = torch.ones(m, dtype=torch.bool)
        rest[chosen] = False
        assert len(chosen) == count
        assert same((x[rest], y[rest]), (new_x[rest], new_y[rest]))
        alone = how.corrupt(x[chosen], y[chosen], keys["corruption"][0])
        assert same(alone, (new_x[chosen], new_y[chosen]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_and_nothing_else(name: str, kind: str, folder: Path) -> None:
    named = part(name, kind, folder, share=0.4)
    first, again, other = (deal(kind, named, seed) for seed in (5, 5, 6))
    for a, b in zip((first.x, *first.train), (again.x, *again.train), strict=True):
        assert torch.equal(a, b)
    pairs = [
        same(held(first, first.train, k), held(other, other.train, k)) for k in (0, 4)
    ]
    assert not all(pairs)  # others were chosen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_given_stays_as_it_is(name: str, kind: str, folder: Path) -> None:
    given = arrays(kind)
    x, y = corrupt.tensors(given, torch.float64)
    before = x.clone(), y.clone()
    how = corrupt.corruption(part(name, kind, folder), given)
    assert how is not None
    new = how.corrupt(x, y, torch.tensor(12345))
    assert same((x, y), before)
    assert new[1].data_ptr() != y.data_ptr() or torch.equal(new[1], y)
    assert new[0].dtype == x.dtype and new[1].dtype == y.dtype


@pytest.mark.parametrize("name", NAMES)
def test_one_example_and_none(name: str, folder: Path) -> None:
    given = arrays("bytes")
    how = corrupt.corruption(part(name, "bytes", folder), given)
    assert how is not None
    for m in (0, 1):
        x, y = (t[:m] for t in corrupt.tensors(given, torch.float32))
        new = how.corrupt(x, y, torch.tensor(7))
        assert new[0].shape == x.shape and new[1].shape == y.shape


@pytest.mark.parametrize("name", NAMES)
def test_who_says_what_it_assumes(name: str) -> None:
    doc = lookup.find("corruption", name).__doc__ or ""
    assert "Threat model:" in doc and "controls" in doc
