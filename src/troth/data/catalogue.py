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
"""Number of clients in the picture of a data set whose examples have no owners."""


class Entry(NamedTuple):
    """What is known about a data set without reading it."""

    about: lookup.About  # description
    kind: Literal["files", "made", "yours"]  # published, generated, or the user's
    source: Source | None  # publisher's files; None if there are none
    place: Path | None  # folder with the files; None if they are not on this machine
    size: int  # bytes of the files in this folder
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
    """Return the size in bytes of a data set's files.

    If the folder has the data set's name, all files in it count.
    """
    own = place.name == source.folder
    paths = (
        p for file in (["**/*"] if own else source.files) for p in place.glob(file)
    )
    return sum(path.lstat().st_size for path in paths if not path.is_dir())


def files(source: Source, place: Path) -> list[tuple[str, int]]:
    """Return the required files and their sizes in bytes; patterns are expanded."""
    paths = [path for file in source.files for path in _files.there(place, file)]
    return [(str(path.relative_to(place)), path.stat().st_size) for path in paths]


def check(source: Source, place: Path) -> dict[str, str]:
    """Compare files with their published digests.

    Returns:
        File → error, or "" if the file is right. Files without a published digest are
        left out.
    """
    return {file: _files.wrong(source, place, file) for file in source.digests}


def get(name: str, data_dir: str | None = None) -> Path:
    """Download a data set, and return its folder.

    The folder is in `data_dir`, or if that is None, in the user's cache. Damaged files
    are downloaded again. If `data_dir` is None and a complete data set is in any of the
    usual folders, nothing is downloaded.
    """
    _, _, source, place, *_ = entry(name, data_dir)
    if source is None:
        raise Refusal(f"data '{name}' is not made of files that could be downloaded")
    if place and not data_dir and not any(check(source, place).values()):
        return place
    root = Path(data_dir) if data_dir else cache()
    return _files.obtain(source, root / source.folder)


class Dealt(NamedTuple):
    """A data set that is divided among clients."""

    name: str  # name of the data set
    arrays: Arrays
    clients: list[np.ndarray]  # rows of the data set that each client has
    partition: str  # name of the partition


def deal(
    name: str | None,
    settings: Sequence[str] = (),
    experiment: str | Path | None = None,
    data_dir: str | None = None,
) -> Dealt:
    """Load a data set and divide it among clients, for display.

    The partition is that of the experiment or of a setting. If there is none, each
    owner of examples is a client. If examples have no owners, they are divided equally
    among ten clients.

    Args:
        name: Name of the data set; None: that of the experiment.
        settings: Changes such as "data.path=mine.npz".
        experiment: File with the data set and the partition; None: there is none. If it
            has a grid, the first run is used.
        data_dir: Folder to search first for data.
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
    whole = lookup.companion(load, "dealt") is not None  # the data depend on clients
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
