"""The data of an experiment, and who holds what of it."""

from __future__ import annotations

from typing import Any

from troth import lookup, splitting
from troth.sections import Experiment
from troth.types import Arrays, Shards


def deal(e: Experiment, data_dir: str | None) -> tuple[Arrays, Shards, dict[str, Any]]:
    """The data, and who holds what; the last one is kept for the next run of a grid."""
    key = repr((e.data, e.partition, e.seed, data_dir))
    if e.data.name == "npz" or key not in _DEALT:  # a user's file may have changed
        _DEALT.clear()
        _DEALT[key] = _deal(e, data_dir)
    arrays, shards, facts = _DEALT[key]
    return arrays, shards, dict(facts)


_DEALT: dict[str, tuple[Arrays, Shards, dict[str, Any]]] = {}


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
    )
    return arrays, shards, facts
