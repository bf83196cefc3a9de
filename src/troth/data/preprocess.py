"""Everything the clients hold, on the device, as their features are prepared."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import lookup
from troth.config.schema import Experiment, Part
from troth.data import corrupt
from troth.data import tensors as dealing
from troth.networks import layers
from troth.types import Arrays, Data, Refusal, Shards, Split, Statistics

_NUMBERS = 1 << 21  # prepared at a time: 16 MB in float64


class Prepared(NamedTuple):
    """How the inputs were prepared, and how often a value was filled in."""

    statistics: Statistics
    imputed: np.ndarray  # [n, ...] over all examples of a client

    def facts(self) -> dict[str, Any]:
        """For the record: values filled in, and features without spread."""
        constant = int(self.statistics.constant.sum())
        return {"imputed": int(self.imputed.sum()), "constant": constant}

    def tensors(self) -> dict[str, Tensor]:
        """For the file of a run."""
        named = {**self.statistics._asdict(), "imputed": self.imputed}
        return {name: torch.from_numpy(values) for name, values in named.items()}


def active(part: Part) -> bool:
    """Whether anything is fitted, so that values may be missing."""
    return part.name != "none"


def check(e: Experiment, arrays: Arrays) -> None:
    """Refuse what cannot be prepared, and what would be prepared twice.

    Raises:
        Refusal: inputs that are bytes, a normalisation that was fitted on other values
            than it would get, or a trigger that they would be changed under.
    """
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
            f"model.normalize = '{kind}' goes by the data as they are (scale "
            f"{arrays.scale:g}), and features '{name}' changes them; set "
            "model.normalize = 'none', or features.name = 'none'"
        )
    if corrupt.aims(e.corruption) is not None:
        raise Refusal(
            f"corruption '{e.corruption.name}' shows test inputs as the data set has "
            f"them, and features '{name}' changes them; set features.name = 'none'"
        )


def deal(
    part: Part,
    arrays: Arrays,
    shards: Shards,
    dtype: torch.dtype,
    device: torch.device,
    hostile: np.ndarray,
    how: corrupt.Corruption | None,
    seed: int,
    newcomers: np.ndarray | None = None,
    fitted: Statistics | None = None,
) -> tuple[Data, Prepared | None, dealing.Redraw | None]:
    """Lay everything out as `dealing.deal` does, and prepare the inputs.

    Hostile clients corrupt their raw data first; then every client fits on the training
    data that it has, and its validation and test data are prepared by what was fitted.
    Fitted and prepared in float64. Statistics a client need rows of its own in `x` for
    every example it holds; with those of all clients, rows stay as they were dealt.

    Args:
        part: of the experiment, `features`.
        arrays: the data set; NaN: missing.
        shards: which examples each client trains, validates and tests on.
        dtype: the precision of the model.
        device: where the data lie.
        hostile: [n] which clients corrupt.
        how: what they do, or None.
        seed: keys their draws.
        newcomers: ids of clients that take no part: nothing is fitted on their data,
            but where each fits by itself they do too.
        fitted: what the inputs are prepared by, where that was fitted before.

    Returns:
        The data, how they were prepared, and what corrupts them anew in each round.
    """
    given = arrays, shards

    def redraw(data: Data, kind: torch.dtype) -> dealing.Redraw | None:
        if how is None or not how.redraw:
            return None
        return dealing.Redraw(how, *given, kind, hostile, seed, data, active(part))

    if not active(part):
        data = dealing.deal(*given, dtype, device, hostile, how, seed)
        return data, None, redraw(data, dtype)
    wide, cpu = torch.float64, torch.device("cpu")
    data = dealing.deal(*given, wide, cpu, hostile, how, seed)
    if how is not None and how.redraw and len(data.x) > len(arrays.x):
        raise Refusal(
            f"corruption '{how.name}' changes inputs, to which features '{part.name}' "
            "are fitted once, and corruption.redraw = true would change them in every "
            "round; set corruption.redraw = false, or features.name = 'none'"
        )
    late = np.zeros(0, np.int64) if newcomers is None else newcomers
    found = fitted or _fit(part, data, arrays.names, late)
    imputed = _missing(data)
    alike = found.mean.shape == data.x.shape[1:]
    data = _alike(data, found, dtype) if alike else _apart(data, found, dtype)
    if not bool(data.x.isfinite().all()):
        raise Refusal(
            f"features '{part.name}' leaves values in x that {str(dtype)[6:]} cannot "
            "hold; rescale the data, or set features.scale and features.center to true"
        )
    data = _place(data, dtype, device)
    return data, Prepared(found, imputed), redraw(data, wide)


def _fit(
    part: Part, data: Data, names: tuple[str, ...], newcomers: np.ndarray
) -> Statistics:
    """What the named member makes of the training data of clients that take part.

    Where it makes one row per client, that of a newcomer is made of its own data alone.
    """
    rows = torch.split(data.train.row, data.train.size.tolist())
    each, shape = [data.x[mine].numpy() for mine in rows], data.x.shape[1:]
    members = np.setdiff1d(np.arange(len(each)), newcomers)
    found = _made(part, [each[k] for k in members], names)
    if found.mean.ndim == len(shape) or not len(newcomers):
        return found
    late = [_made(part, [each[k]], names) for k in newcomers]
    order = np.argsort(np.concatenate([members, newcomers]))
    fields = zip(found, *late, strict=True)
    return Statistics(*(np.concatenate(field)[order] for field in fields))


def _made(part: Part, train: list[np.ndarray], names: tuple[str, ...]) -> Statistics:
    """What the named member makes of some clients' training data."""
    shape = train[0].shape[1:]
    function = lookup.find("features", part.name)
    found = lookup.call(function, part.options, train=train, names=names)
    shapes = {np.shape(values) for values in found} if found else set()
    if shapes != {shape} and shapes != {(len(train), *shape)}:
        raise Refusal(
            f"features '{part.name}' must give a Statistics whose four arrays all have "
            f"the shape {shape} of an example or {(len(train), *shape)}, one per client"
        )
    fill, mean, std = (np.asarray(values, np.float64) for values in found[:3])
    return Statistics(fill, mean, std, np.asarray(found[3], bool))


def _blocks(data: Data, split: Split) -> list[tuple[Tensor, Tensor]]:
    """Rows and owners of a split, in pieces of a size to work on."""
    some = max(1, _NUMBERS // max(1, math.prod(data.x.shape[1:])))
    owner = torch.repeat_interleave(torch.arange(len(split.size)), split.size)
    return list(zip(*(torch.split(t, some) for t in (split.row, owner)), strict=True))


def _missing(data: Data) -> np.ndarray:
    """[n, ...] how many values of each feature each client lacks, in all its data."""
    shape = (len(data.train.size), *data.x.shape[1:])
    count = torch.zeros(shape, dtype=torch.int32)
    for split in (data.train, data.valid, data.test):
        for row, owner in _blocks(data, split):
            count.index_add_(0, owner, data.x[row].isnan().int())
    return count.numpy()


def _layer(found: Statistics, rows: Any = ...) -> layers.Features:
    return layers.Features(*(torch.from_numpy(values[rows]) for values in found[:3]))


def _alike(data: Data, found: Statistics, dtype: torch.dtype) -> Data:
    """All rows by the same statistics."""
    layer, some = _layer(found), max(1, _NUMBERS // max(1, found.mean.size))
    pieces = [layer(x).to(dtype) for x in torch.split(data.x, some)]
    return data._replace(x=torch.cat(pieces))


def _apart(data: Data, found: Statistics, dtype: torch.dtype) -> Data:
    """Every slot becomes a row, by the statistics of the slot's client."""
    given = [data.train, data.valid, data.test, *data.tests.values()]
    rows: list[Tensor] = []
    splits, at = [], 0
    for split in given:
        for row, owner in _blocks(data, split):
            rows.append(_layer(found, owner.numpy())(data.x[row]).to(dtype))
        splits.append(split._replace(row=torch.arange(at, at + len(split.row))))
        at += len(split.row)
    before = torch.cat([split.row for split in given])
    group = data.group[before] if len(data.group) else data.group
    tests = dict(zip(data.tests, splits[3:], strict=True))
    return Data(torch.cat(rows), splits[0], splits[1], splits[2], tests, group)


def _place(data: Data, dtype: torch.dtype, device: torch.device) -> Data:
    def typed(given: Split) -> Split:
        y = given.y.to(dtype) if given.y.is_floating_point() else given.y
        return given._replace(y=y)

    return dealing.placed(data, typed, device)
