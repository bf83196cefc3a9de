"""Arrays and who holds what → everything the clients hold, on the device."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from troth.data import corrupt, labels
from troth.data.corrupt import Corruption
from troth.types import Arrays, Data, Refusal, Shards, Split


def deal(
    arrays: Arrays,
    shards: Shards,
    dtype: torch.dtype,
    device: torch.device,
    hostile: np.ndarray,
    how: Corruption | None,
    seed: int,
) -> Data:
    """Lay everything out; hostile clients have poisoned their training data already.

    Bytes stay bytes; other numbers take the precision of the model. Poisoned labels
    live beside the example's number, poisoned inputs as further rows, so the data of
    benign clients are never touched. Where a client makes another number of examples
    of those that were chosen, they follow those that were not. Where one has fractions
    among bytes, all inputs are held in the precision of the model, with the values
    that they had; where one has shares of the classes, all training labels are rows.

    Args:
        arrays: the data set.
        shards: which examples each client trains, validates and tests on.
        dtype: the precision of the model.
        device: where the data lie.
        hostile: [n] which clients corrupt.
        how: what they do, or None.
        seed: keys their draws.
    """
    x, y = corrupt.tensors(arrays, dtype)
    unmarked = np.zeros(0, np.int64)
    group = torch.from_numpy(unmarked if arrays.group is None else arrays.group)
    train, valid, test = (_ragged(part, y) for part in shards[:3])
    tests = {name: _ragged(part, y) for name, part in shards.tests.items()}
    data = Data(x, train, valid, test, tests, group)
    if how is not None and hostile.any():
        data = _corrupted(data, dtype, hostile, how, seed)
    return placed(data, lambda split: split, device)


def placed(data: Data, change: Callable[[Split], Split], device: torch.device) -> Data:
    """The data on a device, with every split changed on the way."""

    def moved(split: Split) -> Split:
        return Split(*(field.to(device) for field in change(split)))

    tests = {name: moved(split) for name, split in data.tests.items()}
    x, group = data.x.to(device), data.group.to(device)
    parts = moved(data.train), moved(data.valid), moved(data.test)
    return Data(x, *parts, tests, group)


def _ragged(lists: list[np.ndarray], y: Tensor) -> Split:
    row = torch.from_numpy(np.concatenate(lists).astype(np.int64))
    return _split(row, y[row], [len(part) for part in lists])


def _split(row: Tensor, y: Tensor, sizes: list[int]) -> Split:
    size = torch.tensor(sizes)
    return Split(row, y, torch.cumsum(size, 0) - size, size)


def _corrupted(
    data: Data, dtype: torch.dtype, hostile: np.ndarray, how: Corruption, seed: int
) -> Data:
    """The data with poisoned inputs as further rows.

    A poisoned input has the group of the example that it stands for; where their
    number differs, that of the client's first.
    """
    train, x = data.train, [data.x]
    row, y = (list(torch.split(v, train.size.tolist())) for v in train[:2])
    group, at = [data.group], len(data.x)
    for k in map(int, np.flatnonzero(hostile)):
        clean = data.x[row[k]], y[k]
        new = corrupt.poison(how, *clean, seed=seed, round_=0, client=k)
        if labels.soft(new.y):
            y[k] = labels.shares(y[k], how.classes, new.y.dtype)
        fresh = row[k][new.chosen]
        if new.x is not None:
            if len(data.group) and len(new.x) == len(fresh):
                group.append(data.group[fresh])
            elif len(data.group):
                group.append(data.group[fresh[:1]].expand(len(new.x)))
            fresh = torch.arange(at, at + len(new.x))
            x.append(new.x)
            at += len(new.x)
        if len(new.y) == len(new.chosen):
            row[k] = row[k].index_put((new.chosen,), fresh)
            y[k] = y[k].index_put((new.chosen,), new.y)
        else:
            rest = torch.ones(len(row[k]), dtype=torch.bool)
            rest[new.chosen] = False
            row[k] = torch.cat([row[k][rest], fresh])
            y[k] = torch.cat([y[k][rest], new.y])
    if any(labels.soft(part) for part in y):
        y = [labels.shares(part, how.classes, dtype) for part in y]
    if any(part.is_floating_point() for part in x):
        x = [part.to(dtype) for part in x]
    made = _split(torch.cat(row), torch.cat(y), [len(part) for part in row])
    inputs = torch.cat(x) if len(x) > 1 else data.x
    return data._replace(x=inputs, train=made, group=torch.cat(group))


class Redraw:
    """Hostile clients corrupt their clean data anew, before each round they train in.

    Writes into the data in place, where nobody but the client itself reads. What a
    client has follows from the round alone, so that a resumed run has the same. On the
    host, so that draws are the same whatever device the data are on.

    Takes what `deal` took, the data that it gave or what was prepared from them, and
    whether they were prepared, which changes inputs after they were dealt.
    """

    def __init__(
        self,
        how: Corruption,
        arrays: Arrays,
        shards: Shards,
        dtype: torch.dtype,
        hostile: np.ndarray,
        seed: int,
        data: Data,
        prepared: bool = False,
    ) -> None:
        x, y = corrupt.tensors(arrays, dtype)
        self._how, self._seed, self._data = how, seed, data
        self._clean: dict[int, tuple[Tensor, Tensor]] = {}
        self._slots: dict[int, slice] = {}
        self._rows: dict[int, Tensor] = {}  # for inputs, where they change
        for k in map(int, np.flatnonzero(hostile)):
            own = torch.from_numpy(shards.train[k].astype(np.int64))
            first = int(data.train.start[k])
            self._clean[k] = x[own], y[own]
            self._slots[k] = slice(first, first + len(own))
            row = data.train.row[self._slots[k]]
            if not prepared and not torch.equal(row.cpu(), own):
                self._rows[k] = row

    def __call__(self, round_: int, ids: np.ndarray) -> None:
        """Poison the training data of the hostile ones among these clients."""
        for k in map(int, ids):
            if k in self._clean and len(self._clean[k][1]):
                self._redraw(round_, k)

    def _redraw(self, round_: int, k: int) -> None:
        x, y = self._clean[k]
        how, seed, train = self._how, self._seed, self._data.train.y
        new = corrupt.poison(how, x, y, seed=seed, round_=round_, client=k)
        inputs, said = x if new.x is None else new.x, new.y
        finer = inputs.is_floating_point() and not self._data.x.is_floating_point()
        if finer or (labels.soft(said) and not labels.soft(train)):
            raise Refusal(
                f"corruption '{how.name}' gives inputs or labels as fractions in round "
                f"{round_} and did not at first; with corruption.redraw = true they "
                "must be of one kind in all rounds"
            )
        if labels.soft(train):
            y, said = (labels.shares(t, how.classes, train.dtype) for t in (y, said))
        train[self._slots[k]] = y.index_put((new.chosen,), said).to(train)
        if k in self._rows:
            self._data.x[self._rows[k]] = inputs.to(self._data.x)
        elif new.x is not None:
            raise Refusal(
                f"corruption '{how.name}' changes inputs in round {round_} and did not "
                "at first; with corruption.redraw = true it must return a new tensor "
                "of inputs whenever it may change them"
            )
