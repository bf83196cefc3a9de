"""Find, download, check and read the files of data sets."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from troth.data.datasets import _fetch
from troth.files import alone, cache, digest_of
from troth.progress import report
from troth.types import Refusal


class Remote(NamedTuple):
    """One file that a publisher offers for download."""

    url: str
    digest: str = ""  # published digest, `md5:<hex>` or `sha256:<hex>`; "": none
    size: int = 0  # size in bytes; 0: unknown
    makes: tuple[str, ...] = ()
    """Members to extract if the file is an archive (tar or zip): a name means the
    member whose path is equal to the name or ends in it. (): the file is no archive."""

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]

    @property
    def leaves(self) -> tuple[str, ...]:
        """The files that are in the folder after the download."""
        return self.makes or (self.name,)


class Source(NamedTuple):
    """The files of a data set, and where they are published."""

    name: str  # name of the data set
    folder: str  # name of its folder
    files: tuple[str, ...]  # required files; a pattern with `*` needs one match
    page: str  # web page with information and the files
    licence: str
    remotes: tuple[Remote, ...] = ()  # files that can be downloaded
    how: str = ""  # instructions for users, if no program can download the files
    digests: Mapping[str, str] = MappingProxyType({})
    """File → published digest: `md5:…` or `sha256:…`, or `gunzip.md5:…` of the unpacked
    content."""


def places(folder: str, data_dir: str | None) -> list[Path]:
    """Return the folders in which to search for a data set's files, in this order.

    They are the subfolder `folder` of `data_dir` and `data_dir` itself, the same for
    `$TROTH_DATA` and the user's cache, and the folder of Debian's package.
    """
    roots = [data_dir, os.environ.get("TROTH_DATA"), str(cache())]
    given = [Path(os.path.expanduser(root)) for root in roots if root]
    nested = [place for root in given for place in (root / folder, root)]
    return [*nested, Path("/usr/share") / f"dataset-{folder}"]


def missing(source: Source, place: Path) -> list[str]:
    """Return the required files that are not in a folder."""
    return [file for file in source.files if not there(place, file)]


def there(place: Path, file: str) -> list[Path]:
    """Return the files of a folder that match a name or a pattern."""
    fits = place.glob(file) if "*" in file else [place / file]
    return sorted(path for path in fits if os.path.isfile(path))


def held(source: Source, data_dir: str | None) -> Path | None:
    """Return the first folder that has all files of a data set, or None."""
    looked = places(source.folder, data_dir)
    return next((place for place in looked if not missing(source, place)), None)


def locate(source: Source, data_dir: str | None) -> Path:
    """Return a folder with all files of a data set; download them if needed.

    `data_dir` is searched first. Files are downloaded to the user's cache, unless
    `TROTH_OFFLINE=1` forbids it. Raise Refusal if there are no files.
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
    """Return the error message for missing files, which says where to put them.

    Args:
        source: files of the data set.
        data_dir: folder that was searched first.
        why: addition to the first part of the message.
    """
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
    """Return names in one line; if there are more than `most`, only the first ones."""
    some = ", ".join(files[:most])
    return some if len(files) <= most else f"{some} … ({len(files)} files)"


def obtain(source: Source, place: Path) -> Path:
    """Download missing and damaged files into a folder, and return the folder.

    If another process downloads them at the same time, wait for it. Raise Refusal if
    the files cannot be downloaded.
    """
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
    """Return the digest of a file, cached while its size and time stay the same."""
    return digest_of(path, f"{kind}:")


def again(source: Source) -> str:
    """Return what a user should do about a damaged or wrong file."""
    return f"delete it and get it again from {source.page}"


def wrong(source: Source, place: Path, file: str) -> str:
    """Return an error message if a file does not have its published digest, or ""."""
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
    """Raise Refusal if a file does not have its published digest.

    Args:
        source: files of the data set.
        place: folder of the files.
        files: files to check; None: all. Files without a digest are not checked.
    """
    for file in source.files if files is None else files:
        if what := wrong(source, place, file):
            raise Refusal(f"{what}: {again(source)}")


def own_file(path: str, remedy: str) -> str:
    """Return the path of a user's file, with ~ expanded.

    Raise Refusal with the remedy if there is no such file.
    """
    place = os.path.expanduser(path)
    if not os.path.isfile(place):
        raise Refusal(f"there is no file '{path}' (seen from {os.getcwd()}): {remedy}")
    return place


def text(path: Path, remedy: str) -> str:
    """Return the content of a text file; raise Refusal if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise Refusal(f"{path} cannot be read ({error.strerror}): {remedy}") from None
    except UnicodeDecodeError:
        raise Refusal(f"{path} is not a text file: {remedy}") from None
