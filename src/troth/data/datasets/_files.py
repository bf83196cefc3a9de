"""Which files a data set is made of: looked for, downloaded, checked and read."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from troth.data.datasets import _fetch
from troth.files import alone, digest_of
from troth.progress import report
from troth.types import Refusal


class Remote(NamedTuple):
    """One file that a publisher offers."""

    url: str
    digest: str = ""  # `md5:<hex>` or `sha256:<hex>`, where the publisher states one
    size: int = 0  # bytes; 0 is unknown
    makes: tuple[str, ...] = ()
    """Members of an archive (tar or zip) to put into the folder: a member
    matches if its path is, or ends in, what is written here. () is the file itself."""

    @property
    def name(self) -> str:
        """The last part of the address."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]

    @property
    def leaves(self) -> tuple[str, ...]:
        """What it leaves in the folder."""
        return self.makes or (self.name,)


class Source(NamedTuple):
    """Where the files of a data set come from."""

    name: str
    folder: str  # its own, under a root
    files: tuple[str, ...]  # relative to it; with a `*`, one file that fits is enough
    page: str  # where a user reads about it and gets it
    licence: str
    remotes: tuple[Remote, ...] = ()  # what can be fetched
    how: str = ""  # what to put where, if no program can fetch it
    digests: Mapping[str, str] = MappingProxyType({})
    """File → `md5:…` or `sha256:…` as published, or `gunzip.md5:…` of what it holds."""


def cache() -> Path:
    """Return the folder in the user's cache that downloads go to."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root) / "troth"


def places(folder: str, data_dir: str | None) -> list[Path]:
    """Return every folder in which files may lie, first choice first.

    Under each root they lie in a folder of their own or in the root itself. The roots
    are `data_dir`, `$TROTH_DATA`, the user's cache; Debian's package comes last.
    """
    roots = [data_dir, os.environ.get("TROTH_DATA"), str(cache())]
    given = [Path(os.path.expanduser(root)) for root in roots if root]
    nested = [place for root in given for place in (root / folder, root)]
    return [*nested, Path("/usr/share") / f"dataset-{folder}"]


def missing(source: Source, place: Path) -> list[str]:
    """Return the files that a folder lacks."""
    return [file for file in source.files if not there(place, file)]


def there(place: Path, file: str) -> list[Path]:
    """Return a file if a folder holds it, or all that fit a pattern."""
    fits = place.glob(file) if "*" in file else [place / file]
    return sorted(path for path in fits if os.path.isfile(path))


def held(source: Source, data_dir: str | None) -> Path | None:
    """Return the first place that holds all the files of a data set, if any."""
    looked = places(source.folder, data_dir)
    return next((place for place in looked if not missing(source, place)), None)


def locate(source: Source, data_dir: str | None) -> Path:
    """Find the folder that holds all the files of a data set, or download them.

    `data_dir` is looked in first. Downloads go to the user's cache; `TROTH_OFFLINE=1`
    forbids them.
    """
    if place := held(source, data_dir):
        return place
    if not source.remotes:
        raise Refusal(absent(source, data_dir))
    try:
        return obtain(source, cache() / source.folder)
    except Refusal as error:
        why = f" and was not downloaded: {error}"
        raise Refusal(absent(source, data_dir, why)) from None


def absent(source: Source, data_dir: str | None, why: str = "") -> str:
    """Say what to put where, and where it was looked for."""
    looked, lacking = places(source.folder, data_dir), ""
    for place in looked:
        lacks = missing(source, place)
        if len(lacks) < len(source.files) and not lacking:
            lacking = f"; {place} lacks only {_listed(lacks)}"
    what = source.how or f"put {_listed(source.files)}"
    return (
        f"data '{source.name}' is not on this machine{why}; {what} (from "
        f"{source.page}) into {looked[0]}, or set TROTH_DATA to the folder that holds "
        f"them{lacking}; looked in {', '.join(map(str, looked))}"
    )


def _listed(files: Sequence[str], most: int = 8) -> str:
    """Names in a row; of very many only the first."""
    some = ", ".join(files[:most])
    return some if len(files) <= most else f"{some} … ({len(files)} files)"


def obtain(source: Source, place: Path) -> Path:
    """Download what a folder lacks or has damaged; of two processes, the first does."""
    if not source.remotes:
        raise Refusal(f"data '{source.name}' cannot be downloaded: {source.how}")
    if _fetch.offline():
        raise Refusal("TROTH_OFFLINE is set, which forbids downloads")
    with alone(place):
        for remote in source.remotes:
            there = all((place / file).is_file() for file in remote.leaves)
            if there and not any(wrong(source, place, file) for file in remote.leaves):
                continue
            target, digest = place / remote.name, remote.digest
            packed = remote.makes and digest and target.is_file()
            if not (packed and digest_of(target, digest) == digest):
                _fetch.fetch(remote.url, target, digest, remote.size)
            if remote.makes:
                _fetch.unpack(target, remote.makes, place)
    report("", 0, 0)
    return place


@lru_cache(maxsize=1024)
def _known(path: Path, kind: str, size: int, time: int) -> str:
    """Return the digest of a file, remembered while its size and time stay the same."""
    return digest_of(path, f"{kind}:")


def again(source: Source) -> str:
    """Say what to do about a file that is not as it should be."""
    return f"delete it and get it again from {source.page}"


def wrong(source: Source, place: Path, file: str) -> str:
    """Say what is wrong with a file by its published digest; "" if nothing is."""
    path, published, digest = place / file, source.digests.get(file, ""), "missing"
    if published and path.is_file():
        kind, status = published.partition(":")[0], path.stat()
        digest = _known(path, kind, status.st_size, status.st_mtime_ns)
    if published in ("", digest):
        return ""
    others = [other for other, its in source.digests.items() if its == digest]
    holds = f"it holds {others[0]}; " if others else ""
    return f"{path} is not the published file ({holds}{digest}, not {published})"


def verify(source: Source, place: Path, files: Sequence[str] | None = None) -> None:
    """Refuse files that are not the published ones; those without a digest pass."""
    for file in source.files if files is None else files:
        if what := wrong(source, place, file):
            raise Refusal(f"{what}: {again(source)}")


def own_file(path: str, remedy: str) -> str:
    """Return where a user's own file lies; refuse one that is not there."""
    place = os.path.expanduser(path)
    if not os.path.isfile(place):
        raise Refusal(f"there is no file '{path}' (seen from {os.getcwd()}): {remedy}")
    return place


def text(path: Path, remedy: str) -> str:
    """Return what a text file says."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise Refusal(f"{path} cannot be read ({error.strerror}): {remedy}") from None
    except UnicodeDecodeError:
        raise Refusal(f"{path} is not a text file: {remedy}") from None
