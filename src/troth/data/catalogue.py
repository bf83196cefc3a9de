"""The available data sets: where their files are, and what they contain."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from troth import lookup
from troth.config import reader
from troth.data import load as supply
from troth.data.datasets import _files
from troth.data.datasets._files import Source
from troth.files import cache
from troth.types import Arrays, Refusal

CLIENTS = 10
"""Number of clients among which data without owners are divided for display."""


class Entry(NamedTuple):
    """What is known of a data set without reading it."""

    about: lookup.About
    kind: Literal["files", "made", "yours"]  # published, generated, or the user's
    source: Source | None
    place: Path | None  # the folder that holds it
    size: int  # bytes of its files in that folder
    looked: list[Path]  # folders that were searched


def entry(name: str, data_dir: str | None = None) -> Entry:
    """Return the catalogue entry of one data set."""
    function = lookup.find("data", name)
    about = lookup.about("data", name)
    source = getattr(inspect.getmodule(function), "SOURCE", None)
    if not isinstance(source, Source):
        kind: Literal["made", "yours"] = "yours" if "path" in about.options else "made"
        return Entry(about, kind, None, None, 0, [])
    place = _files.held(source, data_dir)
    looked = _files.places(source.folder, data_dir)
    size = taken(source, place) if place else 0
    return Entry(about, "files", source, place, size, looked)


def entries(data_dir: str | None = None) -> list[Entry]:
    """Return the catalogue entries of all data sets."""
    return [entry(name, data_dir) for name in lookup.names("data")]


def taken(source: Source, place: Path) -> int:
    """Count the bytes on disk of a data set's own folder, or else of its files."""
    own = place.name == source.folder
    paths = (
        p for file in (["**/*"] if own else source.files) for p in place.glob(file)
    )
    return sum(path.lstat().st_size for path in paths if not path.is_dir())


def files(source: Source, place: Path) -> list[tuple[str, int]]:
    """List the required files, with patterns expanded, and their sizes in bytes."""
    paths = [path for file in source.files for path in _files.there(place, file)]
    return [(str(path.relative_to(place)), path.stat().st_size) for path in paths]


def check(source: Source, place: Path) -> dict[str, str]:
    """Check every file that has a published digest; return file → error, or "".

    Files without a published digest cannot be checked and are left out.
    """
    return {file: _files.wrong(source, place, file) for file in source.digests}


def get(name: str, data_dir: str | None = None) -> Path:
    """Download a data set into `data_dir`, or else into the user's cache.

    Damaged files are downloaded again. Without `data_dir`, a data set that is complete
    in any folder is not downloaded.
    """
    _, _, source, place, *_ = entry(name, data_dir)
    if source is None:
        raise Refusal(f"data '{name}' is not made of files that could be downloaded")
    if place and not data_dir and not any(check(source, place).values()):
        return place
    root = Path(data_dir) if data_dir else cache()
    return _files.obtain(source, root / source.folder)


class Dealt(NamedTuple):
    """A data set, and which client holds which examples."""

    name: str
    arrays: Arrays
    clients: list[np.ndarray]  # the rows of each client
    partition: str  # name of the partition


def deal(
    name: str | None,
    settings: Sequence[str] = (),
    experiment: str | Path | None = None,
    data_dir: str | None = None,
) -> Dealt:
    """Load a data set and partition it among clients, for display.

    Without an experiment, and unless a setting names a partition, each owner is a
    client. Data without owners are divided equally among ten clients.

    Args:
        name: Name of the data set; `None` is the data set of the experiment.
        settings: Changes such as "data.path=mine.npz".
        experiment: File whose data set and partition are used; of a grid, the first
            run.
        data_dir: Folder that is searched first for data sets.
    """
    own = {"data": {"name": name}} if experiment is None else reader.read(experiment)
    tree = reader.override(own, list(settings))
    e = [reader.from_dict(one) for _, one in reader.expand(tree)][0]
    if name is not None and e.data.name != name:
        raise Refusal(
            f"{experiment} has data '{e.data.name}', not '{name}'; leave the name out, "
            "or give another experiment"
        )
    load = lookup.find("data", e.data.name)
    whole = lookup.companion(load, "dealt") is not None  # needs clients to exist
    if experiment is not None or "partition" in tree or whole:
        arrays, shards, _ = supply.deal(e, data_dir)
        held = [np.concatenate(parts) for parts in zip(*shards[:3], strict=True)]
        return Dealt(e.data.name, arrays, held, e.partition.name)
    arrays = lookup.call(load, e.data.options, seed=e.seed, data_dir=data_dir)
    chosen = "iid" if arrays.owner is None else "natural"
    options = {"clients": min(CLIENTS, len(arrays.y))} if chosen == "iid" else {}
    partition = lookup.find("partition", chosen)
    lists = lookup.call(partition, options, arrays=arrays, seed=e.seed)
    return Dealt(e.data.name, arrays, lists, chosen)
