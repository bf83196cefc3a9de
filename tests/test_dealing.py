from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import dealing, seeding
from troth.corruptions.random_labels import random_labels
from troth.types import Arrays, Data, Shards, Split

SIZES = [(5, 2, 3), (4, 0, 4), (9, 3, 1)]  # train, valid, test of each client
M = sum(map(sum, SIZES))


def arrays(kind: Any = np.uint8, classes: int = 4) -> Arrays:
    x = (np.arange(M * 6).reshape(M, 1, 2, 3) % 250).astype(kind)
    y = np.arange(M) % classes if classes else np.linspace(0, 1, M)
    return Arrays(x, y, classes)


def shards() -> Shards:
    rows = iter(np.random.default_rng(0).permutation(M))
    made = Shards([], [], [])
    for sizes in SIZES:
        for part, size in zip(made, sizes, strict=True):
            part.append(np.array([next(rows) for _ in range(size)], dtype=np.int64))
    return made


def deal(
    given: Arrays,
    corrupt: dealing.Corrupt | None = None,
    hostile: list[int] | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Data:
    mask = np.isin(np.arange(len(SIZES)), hostile or [])
    cpu = torch.device("cpu")
    return dealing.deal(given, shards(), dtype, cpu, mask, corrupt, seed)


def own(split: Split, client: int) -> slice:
    first = int(split.start[client])
    return slice(first, first + int(split.size[client]))


def relabel(label: int) -> dealing.Corrupt:
    return lambda x, y, key: (x, torch.full_like(y, label))


def brighter(x: Tensor, y: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, y


def test_every_client_holds_its_examples() -> None:
    given, who = arrays(), shards()
    data = deal(given)
    for split, lists in zip(data[1:], who, strict=True):
        assert split.size.tolist() == [len(part) for part in lists]
        for client, part in enumerate(lists):
            mine = own(split, client)
            assert split.row[mine].tolist() == part.tolist()
            assert split.y[mine].tolist() == given.y[part].tolist()
            assert (data.x[split.row[mine]].numpy() == given.x[part]).all()


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        (np.uint8, torch.float32, torch.uint8),
        (np.uint8, torch.float64, torch.uint8),
        (np.float32, torch.float64, torch.float64),
        (np.float64, torch.float32, torch.float32),
        (np.float64, torch.float64, torch.float64),
    ],
)
def test_bytes_stay_bytes_and_numbers_take_the_precision(
    kind: Any, dtype: torch.dtype, expected: torch.dtype
) -> None:
    same = deal(arrays(kind), dtype=dtype)
    assert same.x.dtype == expected
    poisoned = deal(arrays(kind), brighter, [0], dtype=dtype)
    assert poisoned.x.dtype == expected
    widened = deal(arrays(kind), lambda x, y, key: (x.double(), y), [0], dtype=dtype)
    assert widened.x.dtype == expected
    assert torch.equal(widened.x[widened.train.row], same.x[same.train.row])


def test_targets_take_the_precision_and_labels_are_whole() -> None:
    assert deal(arrays(classes=0), dtype=torch.float64).train.y.dtype == torch.float64
    assert deal(arrays(classes=0)).test.y.dtype == torch.float32
    assert deal(arrays()).train.y.dtype == torch.int64


def test_poisoned_labels_are_of_hostile_clients_training_data_only() -> None:
    clean, data = deal(arrays()), deal(arrays(), relabel(3), [0, 2])
    assert len(set(clean.train.y[own(clean.train, 1)].tolist())) > 1
    for client in range(len(SIZES)):
        mine = own(data.train, client)
        expected = clean.train.y[mine]
        if client != 1:
            expected = torch.full_like(expected, 3)
        assert torch.equal(data.train.y[mine], expected)
    for part in ("valid", "test"):
        for a, b in zip(getattr(clean, part), getattr(data, part), strict=True):
            assert torch.equal(a, b)
    assert torch.equal(data.x, clean.x) and torch.equal(data.train.row, clean.train.row)


def test_changed_inputs_become_new_rows() -> None:
    clean, data = deal(arrays()), deal(arrays(), brighter, [0, 2])
    assert len(data.x) == M + 5 + 9
    assert torch.equal(data.x[:M], clean.x)  # benign data are never touched
    new = []
    for client in range(len(SIZES)):
        mine = own(data.train, client)
        before = clean.x[clean.train.row[mine]]
        after = data.x[data.train.row[mine]]
        assert torch.equal(after, before if client == 1 else before + 1)
        new += data.train.row[mine].tolist() if client != 1 else []
    assert sorted(new) == list(range(M, M + 14))
    assert torch.equal(data.test.row, clean.test.row)


def test_inputs_changed_in_place_are_changed_for_that_client_alone() -> None:
    def scribble(x: Tensor, y: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return x.add_(1), y

    data, expected = (deal(arrays(), c, [0]) for c in (scribble, brighter))
    for split in (data.train, data.test):
        assert int(split.row.max()) < len(data.x)
    assert torch.equal(data.x[data.train.row], expected.x[expected.train.row])
    assert torch.equal(data.x[:M], deal(arrays()).x)


def test_labels_changed_in_place_leave_the_data_set_alone() -> None:
    def scribble(x: Tensor, y: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return x, y.fill_(3)

    given = arrays()
    data = deal(given, scribble, [0])
    assert (given.y == np.arange(M) % 4).all()
    assert (data.train.y[own(data.train, 0)] == 3).all()
    assert torch.equal(data.test.y, deal(arrays()).test.y)


def test_each_hostile_client_has_a_key_of_its_own() -> None:
    seen: dict[int, list[int]] = {}

    def look(seed: int) -> dealing.Corrupt:
        def corrupt(x: Tensor, y: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
            seen.setdefault(seed, []).append(int(key))
            return x, y

        return corrupt

    for seed in (0, 1):
        deal(arrays(), look(seed), [0, 2], seed)
    assert len({*seen[0], *seen[1]}) == 4
    key = seeding.keys(0, "corruption", 0, torch.tensor([0, 2]))
    assert seen[0] == key.tolist()


def test_a_client_is_poisoned_alike_whoever_else_is() -> None:
    def corrupt(x: Tensor, y: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return random_labels(x, y, 4, key)

    alone, beside = deal(arrays(), corrupt, [2]), deal(arrays(), corrupt, [0, 2])
    mine = own(alone.train, 2)
    assert torch.equal(alone.train.y[mine], beside.train.y[mine])
    assert not torch.equal(alone.train.y[mine], deal(arrays()).train.y[mine])


def test_nobody_is_hostile_or_nothing_is_done() -> None:
    clean = deal(arrays())
    for data in (deal(arrays(), brighter, []), deal(arrays(), None, [0])):
        assert torch.equal(data.x, clean.x)
        assert torch.equal(data.train.y, clean.train.y)


def test_the_arrays_are_left_alone() -> None:
    given = arrays(np.float32)
    before = given.x.copy()
    data = deal(given, brighter, [0, 1, 2])
    data.train.y.fill_(0)
    assert (given.x == before).all() and (given.y == np.arange(M) % 4).all()
