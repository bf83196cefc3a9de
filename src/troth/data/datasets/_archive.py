"""Members of archives, taken out one by one under names of our own choosing."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from troth.files import on_disk
from troth.progress import report
from troth.types import Refusal


def unpack(archive: Path, makes: Sequence[str], folder: Path) -> None:
    """Take the named members out of a tar or zip file, then delete the archive.

    Only regular files are taken, and they are written under the names in `makes`, never
    under those that the archive gives them; they are put in their places once the whole
    archive was read and found good.

    Args:
        archive: the file; what is damaged is deleted.
        makes: relative paths; a member is meant whose path is or ends in this.
        folder: where to put them.

    Raises:
        Refusal: damaged, a member is missing or there twice, or no room.
    """
    by_end: dict[str, list[str]] = {}
    for name in makes:
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise Refusal(f"'{name}' leads out of {folder}; name files within it")
        by_end.setdefault(parts[-1], []).append(name)
    found: dict[str, Path] = {}
    try:
        for member, opened in _members(archive):
            for name in by_end.get(PurePosixPath(member).name, []):
                if not f"/{member}".endswith(f"/{name}"):
                    continue
                if name in found:
                    raise Refusal(f"{archive} holds two files that end in {name}")
                with opened() as content:
                    found[name] = _written(content, folder / name)
                report(f"unpacking {archive.name}", len(found), len(makes))
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as e:
        archive.unlink(missing_ok=True)
        why = str(e).partition("\n")[0].rstrip(":")
        raise Refusal(f"{archive} is damaged ({why}) and was deleted") from None
    if lacking := sorted({*makes} - {*found}):
        some = ", ".join(lacking[:4])
        raise Refusal(f"{archive} does not hold {some}{' …' * (len(lacking) > 4)}")
    with on_disk(folder):
        for name, part in found.items():
            os.replace(part, folder / name)
        archive.unlink()


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """Path and content of every regular file, in the order in which they are packed."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    yield info.filename, partial(packed.open, info)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                yield member.name, partial(_file, tar, member)
        while tar.fileobj and tar.fileobj.read(1 << 20):
            pass  # its checksum stands at its very end


def _file(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(member)
    assert file is not None  # it is a regular one
    return file


def _written(content: IO[bytes], target: Path) -> Path:
    """Write a file beside its place."""
    part = target.with_name(f"{target.name}.part")
    with on_disk(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            for block in _blocks(content):
                file.write(block)
    return part


def _blocks(content: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a member; what goes wrong in reading is not the disk's fault."""
    try:
        while block := content.read(1 << 20):
            yield block
    except OSError as error:
        raise EOFError(str(error)) from None
