"""Arrays and who holds what → everything the clients hold, on the device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from troth import seeding
from troth.types import Arrays, Data, Shards, Split

Corrupt = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""x, y and key of one hostile client → what it makes of them."""


def deal(
    arrays: Arrays,
    shards: Shards,
    dtype: torch.dtype,
    device: torch.device,
    hostile: np.ndarray,
    corrupt: Corrupt | None,
    seed: int,
) -> Data:
    """Lay everything out; hostile clients have poisoned their training data already.

    Bytes stay bytes; other numbers take the precision of the model. Poisoned labels
    live beside the example's number, poisoned inputs as further rows, so the data of
    benign clients are never touched.

    Args:
        arrays: the data set.
        shards: which examples each client trains, validates and tests on.
        dtype: the precision of the model.
        device: where the data lie.
        hostile: [n] which clients corrupt.
        corrupt: what they do, or None.
        seed: keys their draws.
    """
    x = torch.from_numpy(np.ascontiguousarray(arrays.x))
    if x.dtype != torch.uint8:
        x = x.to(dtype)
    y = torch.from_numpy(np.ascontiguousarray(arrays.y))
    y = y.long() if arrays.classes else y.to(dtype)
    train, valid, test = (_ragged(part, y) for part in shards)
    more = [x]
    for client in np.flatnonzero(hostile) if corrupt else ():
        first, size = int(train.start[client]), int(train.size[client])
        own = slice(first, first + size)
        key = seeding.keys(seed, "corruption", 0, torch.tensor(int(client)))
        rows = x[train.row[own]]
        assert corrupt is not None
        poisoned, labels = corrupt(rows.clone(), train.y[own], key)
        train.y[own] = labels
        if not torch.equal(poisoned, rows):
            at = sum(len(part) for part in more)
            train.row[own] = torch.arange(at, at + size)
            more.append(poisoned.to(x.dtype))
    x = torch.cat(more) if len(more) > 1 else x
    return Data(
        x.to(device),
        *(
            Split(*(field.to(device) for field in part))
            for part in (train, valid, test)
        ),
    )


def _ragged(lists: list[np.ndarray], y: Tensor) -> Split:
    size = torch.tensor([len(part) for part in lists])
    start = torch.cumsum(size, 0) - size
    row = torch.from_numpy(np.concatenate(lists).astype(np.int64))
    return Split(row, y[row], start, size)
