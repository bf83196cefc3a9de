"""Convert all clients' data to tensors on the device, with prepared features.

To prepare features means to fill in missing values and to standardize them. A slot is
one example of one client; it has a label, and refers to a row of the inputs x.
"""

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
    """The clients' data before they are converted to tensors and prepared."""

    arrays: Arrays  # the data set
    shards: Shards  # its rows that each client has
    dtype: torch.dtype  # dtype of the model
    device: torch.device
    hostile: np.ndarray  # [n] whether the client is malicious
    how: Corruption | None  # corruption of malicious clients' data
    seed: int  # seed of the corruption


def as_tensors(raw: Raw) -> Data:
    """Convert all clients' data to tensors, and corrupt the data of malicious clients.

    Bytes stay bytes, and other numbers get the dtype of the model. Corrupted labels are
    stored per slot, and corrupted inputs as additional rows of x. So the data of benign
    clients never change. If a corruption returns more or fewer examples than it gets,
    the new examples come after those that were not chosen.

    If a corruption returns fractions in a data set of bytes, all inputs are converted
    to the dtype of the model, and no value changes. If it returns soft labels, all
    training labels become soft labels.
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
    """Move the data to a device, and unless `dtype` is None, convert float labels."""

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
    """Return the data with corrupted inputs as additional rows.

    A corrupted input has the group of the example that it replaces. If the number of
    examples changes, it has the group of the client's first chosen example.
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

    The corrupted data are written to rows that only the malicious client uses. They
    depend on the number of the round, but not on earlier rounds, so a resumed run has
    the same data. Random numbers are drawn on the CPU, so they do not depend on the
    device.
    """

    def __init__(self, raw: Raw, data: Data, prepared: bool = False) -> None:
        assert raw.how is not None
        x, y = corrupt.tensors(raw.arrays, raw.dtype)
        self._how, self._seed, self._data = raw.how, raw.seed, data
        # client → clean inputs and labels, slots, and rows of x that change (or None)
        self._held: dict[int, tuple[Tensor, Tensor, slice, Tensor | None]] = {}
        for k in map(int, np.flatnonzero(raw.hostile)):
            own = torch.from_numpy(raw.shards.train[k].astype(np.int64))
            first = int(data.train.start[k])
            slots = slice(first, first + len(own))
            row = data.train.row[slots]
            fixed = prepared or torch.equal(row.cpu(), own)
            self._held[k] = x[own], y[own], slots, None if fixed else row

    def __call__(self, round_: int, ids: np.ndarray) -> None:
        """Corrupt the training data of malicious clients among `ids` for a round."""
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


_NUMBERS = 1 << 21  # largest count of numbers prepared at once: 16 MB in float64


class Prepared(NamedTuple):
    """The statistics that were used to prepare inputs, and counts of missing values."""

    statistics: Statistics
    imputed: np.ndarray  # [n, ...] number of values of each client that were filled in

    def facts(self) -> dict[str, Any]:
        """Return the numbers of filled in values and of constant features."""
        constant = int(self.statistics.constant.sum())
        return {"imputed": int(self.imputed.sum()), "constant": constant}

    def tensors(self) -> dict[str, Tensor]:
        """Return the statistics as tensors, for the file of a run."""
        named = {**self.statistics._asdict(), "imputed": self.imputed}
        return {name: torch.from_numpy(values) for name, values in named.items()}


def active(part: Part) -> bool:
    """Return whether features are prepared, in which case values may be missing."""
    return part.name != "none"


def check(e: Experiment, arrays: Arrays) -> None:
    """Raise Refusal if inputs cannot be prepared, or would be normalized twice."""
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
    """Convert the data to tensors as in `as_tensors`, and prepare the features.

    First, malicious clients corrupt their data. Then statistics are computed from the
    clients' training data, and used to prepare all data, in float64. If each client has
    its own statistics, every slot gets a separate row in `x`. Otherwise, clients with
    the same example share its row.

    Args:
        part: the experiment's section `features`.
        raw: the clients' data.
        newcomers: clients whose data are not used for shared statistics. If each client
            has its own statistics, newcomers have too.
        fitted: statistics to use; None: compute them.

    Returns:
        The data; the statistics (None if features are not prepared); and the function
        that corrupts the data again in each round (None if there is none).
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
    """Compute statistics from the clients' training data by the method of `part`.

    If the method returns one row per client, the row of a newcomer is computed from the
    newcomer's data alone. Otherwise, data of newcomers are not used.
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
    """Call the method of `part` with training data.

    Raise Refusal if its result does not have the right shape.
    """
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
    """Return rows and clients of the slots of a split, in pieces of limited size."""
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
    """Prepare all rows with the same statistics."""
    layer, some = _layer(statistics), max(1, _NUMBERS // max(1, statistics.mean.size))
    pieces = [layer(x).to(dtype) for x in torch.split(data.x, some)]
    return data._replace(x=torch.cat(pieces))


def _apart(data: Data, statistics: Statistics, dtype: torch.dtype) -> Data:
    """Copy every slot to a separate row, prepared with the statistics of its client."""
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
