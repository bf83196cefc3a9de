"""Load the data of an experiment, and divide the examples among clients."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from troth import files, lookup
from troth.config.schema import Experiment
from troth.data import leakage, preprocess, sources, split
from troth.types import Arrays, Refusal, Shards

_MANY = 1000  # largest number of class names that a run records
_WIDE = 10_000  # largest number of feature names that a run records
_SIZES = ("train", "valid", "test")
_TAKEN = (*_SIZES, "shared", "client", files.OWNER, "malicious", "newcomer")


def deal(e: Experiment, data_dir: str | None) -> tuple[Arrays, Shards, dict[str, Any]]:
    """Load the data of an experiment, divide them among clients, and split them.

    The last result is cached, because the next run of a grid may use the same data.

    Returns:
        The data set, the rows of each client, and facts to record.
    """
    missing = preprocess.active(e.features)
    written = _written(_path(e))
    key = repr((e.data, written, e.partition, e.seed, data_dir, missing))
    if key not in _DEALT:
        _DEALT.clear()
        _DEALT[key] = _deal(e, data_dir)
    arrays, shards, facts = _DEALT[key]
    return arrays, shards, dict(facts)


def _path(e: Experiment) -> str:
    """Return the path of the user's file; "" if the data are not from such a file."""
    path = {**(e.data.options.get("base_options") or {}), **e.data.options}.get("path")
    return path if isinstance(path, str) else ""


def _written(path: str) -> tuple[Any, ...]:
    """Return values that change if a file, or any file of a folder, changes."""
    place = Path(path).expanduser()
    below = sorted(place.rglob("*")) if path and place.is_dir() else []
    return files.version(path), *((str(p), files.version(str(p))) for p in below)


def _own(e: Experiment) -> bool:
    """Return whether the data are the user's: from a file, a function or memory."""
    return bool(_path(e)) or ":" in e.data.name


_DEALT: dict[str, tuple[Arrays, Shards, dict[str, Any]]] = {}


def _deal(e: Experiment, data_dir: str | None) -> tuple[Arrays, Shards, dict[str, Any]]:
    find = lookup.find("data", e.data.name)
    arrays = lookup.call(find, e.data.options, seed=e.seed, data_dir=data_dir)
    if ":" in e.data.name:
        arrays = sources.returned(e.data.name, arrays)
    partition = lookup.find("partition", e.partition.name)
    lists = lookup.call(partition, e.partition.options, arrays=arrays, seed=e.seed)
    shards, facts = divided(e, arrays, lists, e.partition.min_examples)
    if _own(e):
        facts["data_sha256"] = sources.digest_of(arrays)
        owners = _owners(arrays, shards)
        facts |= {"owners": owners} if owners else {}
    facts |= leakage.examine(arrays, shards, e.partition.leakage)
    kind, most = e.partition.conflicting, e.partition.correlation
    shards = split.set_apart(arrays, shards, e.seed, kind, most)
    arrays, shards = _after(find, e, arrays, shards)
    if 0 < len(arrays.labels) <= _MANY:
        facts["labels"] = list(arrays.labels)
    if 0 < len(arrays.names) == len({*arrays.names}) <= _WIDE:
        facts["features"] = list(arrays.names)
    return arrays, shards, facts


def _owners(arrays: Arrays, shards: Shards) -> list[str]:
    """Return the name of each client's owner.

    Return [] if a client has examples of several owners, if the data have no owners, or
    if the names are the clients' numbers.
    """
    if arrays.owner is None:
        return []
    parts = zip(*shards[:3], strict=True)
    each = [np.unique(arrays.owner[np.concatenate(rows)]) for rows in parts]
    if any(len(owners) != 1 for owners in each):
        return []
    codes = [int(owners[0]) for owners in each]
    if not arrays.owners and codes == [*range(len(codes))]:
        return []
    return [arrays.owners[k] if arrays.owners else str(k) for k in codes]


def divided(
    e: Experiment, arrays: Arrays, lists: list[np.ndarray], least: int
) -> tuple[Shards, dict[str, Any]]:
    """Split each client's examples into training, validation and test.

    Args:
        e: the experiment.
        arrays: the data set.
        lists: the rows of each client.
        least: fewest examples of a client; clients with fewer are left out.
    """
    how = replace(e.partition, min_examples=least)
    return split.split(arrays, lists, e.seed, how, preprocess.active(e.features))


def _after(
    find: Callable[..., Any], e: Experiment, arrays: Arrays, shards: Shards
) -> tuple[Arrays, Shards]:
    """Apply the function `dealt` of the data set's module, if there is one.

    It changes the data after they were split. Its arguments are `arrays`, `shards`,
    `seed` and those options of the data set that its parameters name. It returns new
    arrays and shards.
    """
    function = lookup.companion(find, "dealt")
    if function is None:
        return arrays, shards
    given = {k: e.data.options[k] for k in lookup.options(function)}
    held = {"arrays": arrays, "shards": shards}
    arrays, shards = lookup.call(function, given, **held, seed=e.seed)
    for name, lists in shards.tests.items():
        taken, n = not name.isidentifier() or name in _TAKEN, len(shards.train)
        if taken or len(lists) != n:
            raise Refusal(
                f"data '{e.data.name}' makes a test set {name!r} for {len(lists)} of "
                f"{n} clients; its name must be one word and none of "
                f"{', '.join(_TAKEN)}, and every client must have a list"
            )
    return arrays, shards
