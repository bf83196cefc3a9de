"""All clients' data as tensors on the device, with prepared features."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import lookup
from troth.config.schema import Experiment, Part
from troth.data import corrupt, labels
from troth.data.corrupt import Corruption
from troth.networks import layers
from troth.types import Arrays, Data, Refusal, Shards, Split, Statistics


class Raw(NamedTuple):
    """The clients' data before they are turned into tensors and prepared."""

    arrays: Arrays
    shards: Shards
    dtype: torch.dtype  # dtype of the model
    device: torch.device
    hostile: np.ndarray  # [n] whether the client is malicious
    how: Corruption | None  # what malicious clients do to their data
    seed: int  # seed of the corruption


def as_tensors(raw: Raw) -> Data:
    """Convert all clients' data to tensors, and corrupt the data of malicious clients.

    Bytes stay bytes, and other numbers take the dtype of the model. Poisoned labels are
    stored per slot, and poisoned inputs as further rows of x. The data of benign
    clients are therefore never changed. If a corruption returns another number of
    examples than were chosen, the new examples follow those that were not chosen.

    If a corruption gives fractions in a data set of bytes, all inputs are converted to
    the dtype of the model, and no value changes. If it gives soft labels, all training
    labels become rows [classes].
    """
    shards, marks = raw.shards, raw.arrays.group
    x, y = corrupt.tensors(raw.arrays, raw.dtype)
    group = torch.from_numpy(np.zeros(0, np.int64) if marks is None else marks)
    train, valid, test = (_ragged(part, y) for part in shards[:3])
    tests = {name: _ragged(part, y) for name, part in shards.tests.items()}
    data = Data(x, train, valid, test, tests, group)
    if raw.how is not None and raw.hostile.any():
        data = _corrupted(data, raw, raw.how)
    return _placed(data, raw.device)


def _placed(data: Data, device: torch.device, dtype: torch.dtype | None = None) -> Data:
    """Move the data to a device, and convert float labels to `dtype` if it is given."""

    def moved(split: Split) -> Split:
        fractional = dtype and split.y.is_floating_point()
        y = split.y.to(dtype) if fractional else split.y
        return Split(*(field.to(device) for field in split._replace(y=y)))

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


def _corrupted(data: Data, raw: Raw, how: Corruption) -> Data:
    """Return the data with poisoned inputs as further rows.

    A poisoned input belongs to the group of the example that it replaces. If the number
    of examples changes, it belongs to the group of the client's first chosen example.
    """
    train, x = data.train, [data.x]
    row, y = (list(torch.split(v, train.size.tolist())) for v in train[:2])
    group, at = [data.group], len(data.x)
    for k in map(int, np.flatnonzero(raw.hostile)):
        clean = data.x[row[k]], y[k]
        new = corrupt.poison(how, *clean, seed=raw.seed, round_=0, client=k)
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
        y = [labels.shares(part, how.classes, raw.dtype) for part in y]
    if any(part.is_floating_point() for part in x):
        x = [part.to(raw.dtype) for part in x]
    made = _split(torch.cat(row), torch.cat(y), [len(part) for part in row])
    inputs = torch.cat(x) if len(x) > 1 else data.x
    return data._replace(x=inputs, train=made, group=torch.cat(group))


class Redraw:
    """Corrupt the clean data again before each round in which malicious clients train.

    The corrupted data are written into rows that only the malicious client uses. They
    depend on the number of the round and not on earlier rounds, so that a resumed run
    has the same data. Random numbers are drawn on the host, so that they do not depend
    on the device.
    """

    def __init__(self, raw: Raw, data: Data, prepared: bool = False) -> None:
        assert raw.how is not None
        x, y = corrupt.tensors(raw.arrays, raw.dtype)
        self._how, self._seed, self._data = raw.how, raw.seed, data
        # Per client: clean inputs and labels, slots, and rows of inputs that change.
        self._held: dict[int, tuple[Tensor, Tensor, slice, Tensor | None]] = {}
        for k in map(int, np.flatnonzero(raw.hostile)):
            own = torch.from_numpy(raw.shards.train[k].astype(np.int64))
            first = int(data.train.start[k])
            slots = slice(first, first + len(own))
            row = data.train.row[slots]
            fixed = prepared or torch.equal(row.cpu(), own)
            self._held[k] = x[own], y[own], slots, None if fixed else row

    def __call__(self, round_: int, ids: np.ndarray) -> None:
        """Poison the training data of the malicious clients among `ids`."""
        for k in map(int, ids):
            if k in self._held and len(self._held[k][1]):
                self._redraw(round_, k)

    def _redraw(self, round_: int, k: int) -> None:
        x, y, slots, rows = self._held[k]
        how, seed, train = self._how, self._seed, self._data.train.y
        new = corrupt.poison(how, x, y, seed=seed, round_=round_, client=k)
        inputs, new_y = x if new.x is None else new.x, new.y
        finer = inputs.is_floating_point() and not self._data.x.is_floating_point()
        if finer or (labels.soft(new_y) and not labels.soft(train)):
            raise Refusal(
                f"corruption '{how.name}' gives inputs or labels as fractions in round "
                f"{round_} and did not at first; with corruption.redraw = true they "
                "must be of one kind in all rounds"
            )
        if labels.soft(train):
            y = labels.shares(y, how.classes, train.dtype)
            new_y = labels.shares(new_y, how.classes, train.dtype)
        train[slots] = y.index_put((new.chosen,), new_y).to(train)
        if rows is not None:
            self._data.x[rows] = inputs.to(self._data.x)
        elif new.x is not None:
            raise Refusal(
                f"corruption '{how.name}' changes inputs in round {round_} and did not "
                "at first; with corruption.redraw = true it must return a new tensor "
                "of inputs whenever it may change them"
            )


_NUMBERS = 1 << 21  # numbers prepared at a time: 16 MB in float64


class Prepared(NamedTuple):
    """The statistics that prepared the inputs, and the number of imputed values."""

    statistics: Statistics
    imputed: np.ndarray  # [n, ...] number of values filled in, over all examples

    def facts(self) -> dict[str, Any]:
        """Return how many values were imputed, and how many features are constant."""
        constant = int(self.statistics.constant.sum())
        return {"imputed": int(self.imputed.sum()), "constant": constant}

    def tensors(self) -> dict[str, Tensor]:
        """Return the statistics as tensors, for the file of a run."""
        named = {**self.statistics._asdict(), "imputed": self.imputed}
        return {name: torch.from_numpy(values) for name, values in named.items()}


def active(part: Part) -> bool:
    """Return whether statistics are fitted, in which case values may be missing."""
    return part.name != "none"


def check(e: Experiment, arrays: Arrays) -> None:
    """Refuse inputs that cannot be prepared, or would be normalized twice."""
    if not active(e.features):
        return
    kind, name = e.model.normalize, e.features.name
    if arrays.x.dtype.kind != "f":
        raise Refusal(
            f"features '{name}' prepares fractional numbers, and x is {arrays.x.dtype};"
            " set features.name = 'none': model.normalize prepares bytes and pictures"
        )
    if kind == "pixel" or (kind == "unit" and arrays.scale != 1):
        raise Refusal(
            f"model.normalize = '{kind}' is for data before preparation (scale "
            f"{arrays.scale:g}), and features '{name}' prepares them; set "
            "model.normalize = 'none', or features.name = 'none'"
        )
    if corrupt.aims(e.corruption) is not None:
        raise Refusal(
            f"corruption '{e.corruption.name}' changes test inputs in the units of the "
            f"data set, and features '{name}' changes the units; set features.name = "
            "'none'"
        )


def deal(
    part: Part,
    raw: Raw,
    newcomers: np.ndarray | None = None,
    fitted: Statistics | None = None,
) -> tuple[Data, Prepared | None, Redraw | None]:
    """Convert the data to tensors as `as_tensors` does, and prepare the inputs.

    Malicious clients corrupt their raw data first. Statistics are then fitted on the
    clients' training data, and prepare all data. Fitting and preparing are done in
    float64. If each client has its own statistics, every slot needs a separate row in
    `x`. Otherwise, clients still share rows.

    Args:
        part: the experiment's section `features`.
        raw: the clients' data.
        newcomers: clients whose data are not used to fit shared statistics. If each
            client fits its own statistics, newcomers do too.
        fitted: statistics from an earlier fit, to be used instead of a new one.

    Returns:
        The data, how they were prepared (`None` if nothing is fitted), and the function
        that corrupts the data anew in each round (`None` if there is none).
    """
    redrawn = raw.how is not None and raw.how.redraw
    if not active(part):
        data = as_tensors(raw)
        return data, None, Redraw(raw, data) if redrawn else None
    wide = raw._replace(dtype=torch.float64, device=torch.device("cpu"))
    data = as_tensors(wide)
    if raw.how is not None and redrawn and len(data.x) > len(raw.arrays.x):
        raise Refusal(
            f"corruption '{raw.how.name}' changes inputs, to which features "
            f"'{part.name}' are fitted once, and corruption.redraw = true would change "
            "them in every round; set corruption.redraw = false, or features.name = "
            "'none'"
        )
    late = np.zeros(0, np.int64) if newcomers is None else newcomers
    statistics = fitted or _fit(part, data, raw.arrays.names, late)
    imputed = _missing(data)
    alike = statistics.mean.shape == data.x.shape[1:]
    data = (_alike if alike else _apart)(data, statistics, raw.dtype)
    if not bool(data.x.isfinite().all()):
        raise Refusal(
            f"features '{part.name}' leaves values in x that {str(raw.dtype)[6:]} "
            "cannot hold; rescale the data, or set features.scale and features.center "
            "to true"
        )
    data = _placed(data, raw.device, raw.dtype)
    redraw = Redraw(wide, data, prepared=True) if redrawn else None
    return data, Prepared(statistics, imputed), redraw


def _fit(
    part: Part, data: Data, names: tuple[str, ...], newcomers: np.ndarray
) -> Statistics:
    """Fit the statistics that `part` names to the clients' training data.

    If the method returns one row per client, the row of a newcomer is computed from the
    newcomer's data alone.
    """
    rows = torch.split(data.train.row, data.train.size.tolist())
    each, shape = [data.x[mine].numpy() for mine in rows], data.x.shape[1:]
    members = np.setdiff1d(np.arange(len(each)), newcomers)
    made = _made(part, [each[k] for k in members], names)
    if made.mean.ndim == len(shape) or not len(newcomers):
        return made
    late = [_made(part, [each[k]], names) for k in newcomers]
    order = np.argsort(np.concatenate([members, newcomers]))
    fields = zip(made, *late, strict=True)
    return Statistics(*(np.concatenate(field)[order] for field in fields))


def _made(part: Part, train: list[np.ndarray], names: tuple[str, ...]) -> Statistics:
    """Call the method that `part` names on training data, and check its result."""
    shape = train[0].shape[1:]
    function = lookup.find("features", part.name)
    made = lookup.call(function, part.options, train=train, names=names)
    shapes = {np.shape(values) for values in made} if made else set()
    if shapes != {shape} and shapes != {(len(train), *shape)}:
        raise Refusal(
            f"features '{part.name}' must give a Statistics whose four arrays all have "
            f"the shape {shape} of an example or {(len(train), *shape)}, one per client"
        )
    fill, mean, std = (np.asarray(values, np.float64) for values in made[:3])
    return Statistics(fill, mean, std, np.asarray(made[3], bool))


def _blocks(data: Data, split: Split) -> list[tuple[Tensor, Tensor]]:
    """Return the rows and clients of a split's slots, in pieces of limited size."""
    some = max(1, _NUMBERS // max(1, math.prod(data.x.shape[1:])))
    owner = torch.repeat_interleave(torch.arange(len(split.size)), split.size)
    return list(zip(*(torch.split(t, some) for t in (split.row, owner)), strict=True))


def _missing(data: Data) -> np.ndarray:
    """Return the number of missing values of each client's features, [n, ...]."""
    shape = (len(data.train.size), *data.x.shape[1:])
    count = torch.zeros(shape, dtype=torch.int32)
    for split in (data.train, data.valid, data.test):
        for row, owner in _blocks(data, split):
            count.index_add_(0, owner, data.x[row].isnan().int())
    return count.numpy()


def _layer(statistics: Statistics, rows: Any = ...) -> layers.Features:
    return layers.Features(
        *(torch.from_numpy(values[rows]) for values in statistics[:3])
    )


def _alike(data: Data, statistics: Statistics, dtype: torch.dtype) -> Data:
    """Prepare all rows by the same statistics."""
    layer, some = _layer(statistics), max(1, _NUMBERS // max(1, statistics.mean.size))
    pieces = [layer(x).to(dtype) for x in torch.split(data.x, some)]
    return data._replace(x=torch.cat(pieces))


def _apart(data: Data, statistics: Statistics, dtype: torch.dtype) -> Data:
    """Copy every slot to a separate row, prepared by the statistics of its client."""
    given = [data.train, data.valid, data.test, *data.tests.values()]
    rows: list[Tensor] = []
    splits, at = [], 0
    for split in given:
        for row, owner in _blocks(data, split):
            rows.append(_layer(statistics, owner.numpy())(data.x[row]).to(dtype))
        splits.append(split._replace(row=torch.arange(at, at + len(split.row))))
        at += len(split.row)
    before = torch.cat([split.row for split in given])
    group = data.group[before] if len(data.group) else data.group
    tests = dict(zip(data.tests, splits[3:], strict=True))
    return Data(torch.cat(rows), splits[0], splits[1], splits[2], tests, group)
