"""The data of an experiment, and who holds what of it."""

from __future__ import annotations

import os
from typing import Any

from troth import leakage, lookup, preparing, splitting
from troth.sections import Experiment
from troth.types import Arrays, Options, Shards

_MANY = 1000  # names of classes that a run still writes down
_WIDE = 10_000  # names of features


def deal(e: Experiment, data_dir: str | None) -> tuple[Arrays, Shards, dict[str, Any]]:
    """The data, and who holds what; the last one is kept for the next run of a grid."""
    missing = preparing.active(e.features)
    written = _written(e.data.options)
    key = repr((e.data, written, e.partition, e.seed, data_dir, missing))
    if key not in _DEALT:
        _DEALT.clear()
        _DEALT[key] = _deal(e, data_dir)
    arrays, shards, facts = _DEALT[key]
    return arrays, shards, dict(facts)


_DEALT: dict[str, tuple[Arrays, Shards, dict[str, Any]]] = {}


def _written(options: Options) -> tuple[int, ...]:
    """When a user's own file was written and how long it is: it may have changed."""
    try:
        found = os.stat(os.path.expanduser(options["path"]))
    except (KeyError, TypeError, OSError, ValueError):
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _deal(e: Experiment, data_dir: str | None) -> tuple[Arrays, Shards, dict[str, Any]]:
    find = lookup.find("data", e.data.name)
    arrays = lookup.call(find, e.data.options, seed=e.seed, data_dir=data_dir)
    partition = lookup.find("partition", e.partition.name)
    lists = lookup.call(partition, e.partition.options, arrays=arrays, seed=e.seed)
    parts = e.partition.split
    shards, facts = splitting.split(
        arrays,
        lists,
        e.seed,
        parts=parts if isinstance(parts, str) else (parts[0], parts[1], parts[2]),
        valid=e.partition.valid,
        min_examples=e.partition.min_examples,
        by=e.partition.split_by,
        missing=preparing.active(e.features),
    )
    facts |= leakage.examine(arrays, shards, e.partition.leakage)
    if 0 < len(arrays.labels) <= _MANY:
        facts["labels"] = list(arrays.labels)
    if 0 < len(arrays.names) == len({*arrays.names}) <= _WIDE:
        facts["features"] = list(arrays.names)
    return arrays, shards, facts
