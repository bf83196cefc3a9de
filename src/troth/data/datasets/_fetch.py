"""Download files and unpack archives.

A download is written to `<file>.part`, which is renamed when its size and its digest
are correct. The environment variables `http_proxy`, `https_proxy` and `no_proxy` have
their usual effect, and `TROTH_OFFLINE=1` forbids downloads. Nothing is printed;
`progress.watching` sets a function that receives the progress.
"""

import errno
import http.client
import os
import shutil
import socket
import ssl
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from troth.files import digest_of, on_disk
from troth.progress import report
from troth.types import Refusal

TIMEOUT = 30.0
"""Seconds without data after which a connection is taken to be lost."""
TRIES = 5
"""Largest number of attempts to download a file."""
PAUSE = 1.0
"""Seconds before the second attempt. The pause doubles after each attempt."""
_BUSY = {408, 425, 429, 500, 502, 503, 504}  # HTTP status codes of temporary errors


def offline() -> bool:
    """Return whether the user forbids downloads."""
    return os.environ.get("TROTH_OFFLINE", "0") not in ("", "0")


class _Cut(EOFError):
    """Error of an interrupted download, for which another attempt may succeed."""


def fetch(url: str, target: Path, digest: str = "", size: int = 0) -> None:
    """Download a file to `target`, after its size and digest were checked.

    Raise Refusal if this fails. An existing file is then kept.

    Args:
        url: address of the file.
        target: path of the file.
        digest: published digest; "": unknown, and not checked.
        size: published size in bytes; 0: unknown, and not checked.
    """
    if offline():
        raise Refusal("TROTH_OFFLINE is set, which forbids downloads")
    part = target.with_name(f"{target.name}.part")
    try:
        _persist(url, part, size)
        report(f"checking {target.name}", 0, 0)
        if digest and (actual := digest_of(part, digest)) != digest:
            raise Refusal(
                f"{url} has the digest {actual} where {digest} is published; it was "
                "deleted: try again later"
            )
        with on_disk(target.parent):
            os.replace(part, target)
    finally:
        with on_disk(target.parent):
            part.unlink(missing_ok=True)


def _persist(url: str, part: Path, size: int) -> None:
    """Download a file, with up to `TRIES` attempts if it is interrupted."""
    for left in reversed(range(TRIES)):
        try:
            return _download(url, part, size)
        except _Cut as cut:
            if not left:
                raise Refusal(f"{url} did not come through: {cut}") from None
            report(f"{part.stem}: {cut}; trying again", 0, 0)
            time.sleep(PAUSE * 2 ** (TRIES - 1 - left))


def _download(url: str, part: Path, size: int) -> None:
    """Make one request, and write the response to a file.

    Raise `_Cut` if the response ends too early.
    """
    with _answer(url) as response:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else size
        if size and total != size:
            raise Refusal(f"{url} has {total:,} bytes where {size:,} are published")
        done = _write(response, part, total)
    if done < total:
        raise _Cut(f"the connection was cut after {done:,} of {total:,} bytes")


def _answer(url: str) -> Any:
    """Return the server's response.

    A new opener is made each time, in case the settings of proxies changed.
    """
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "troth"})
        return urllib.request.build_opener().open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        answer = f"the server answers {error.code} {error.reason}"
        if error.code not in _BUSY:
            raise Refusal(f"{url}: {answer}") from None
        raise _Cut(answer) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if _hopeless(reason):
            raise Refusal(f"{url} cannot be reached ({reason})") from None
        raise _Cut(str(reason) or type(reason).__name__) from None


def _hopeless(reason: Any) -> bool:
    """Return whether another attempt is useless.

    This is the case for a bad address, an unknown host, an untrusted certificate, or a
    proxy that forbids the connection.
    """
    address = (str, ValueError, http.client.InvalidURL)
    host = (socket.gaierror, ssl.SSLCertVerificationError)
    forbidden = "Tunnel connection failed: 4" in str(reason)
    return isinstance(reason, (*address, *host)) or forbidden


def _write(stream: Any, part: Path, total: int = 0) -> int:
    """Write a stream to a file, and return the number of bytes.

    If `total`, the expected number, exceeds the free disk space, Refusal is raised.
    """
    done = 0
    with on_disk(part.parent):
        part.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(part.parent).free
        if total > free:
            text = f"{total:,} bytes are needed, {free:,} are free"
            raise OSError(errno.ENOSPC, text)
        with part.open("wb") as file:
            while block := _block(stream):
                file.write(block)
                done += len(block)
                report(part.stem, done, total)
    return done


def _block(stream: Any) -> bytes:
    """Read the next block; raise `_Cut` if reading fails."""
    try:
        return bytes(stream.read1(1 << 16))
    except (OSError, http.client.HTTPException) as error:
        raise _Cut(f"it was cut ({error or type(error).__name__})") from None


def unpack(archive: Path, makes: Sequence[str], folder: Path) -> None:
    """Extract some members of a tar or zip file into a folder, and delete the archive.

    Only regular files are extracted. They get the names in `makes`, never those in the
    archive. They are renamed to these only after the whole archive was read without an
    error. Raise Refusal if the archive is damaged or a member is missing.

    Args:
        archive: the file.
        makes: names of the members. A name means the member whose path is equal to the
            name or ends in it.
        folder: folder to extract to.
    """
    parts: dict[str, Path] = {}
    try:
        for member, opened in _members(archive):
            for name in makes:
                if not f"/{member}".endswith(f"/{name}"):
                    continue
                if name in parts:
                    raise Refusal(f"{archive} holds two files that end in {name}")
                target = folder / name
                parts[name] = target.with_name(f"{target.name}.part")
                with opened() as content:
                    _write(content, parts[name])
                report(f"unpacking {archive.name}", len(parts), len(makes))
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as e:
        archive.unlink(missing_ok=True)
        why = str(e).partition("\n")[0].rstrip(":")
        raise Refusal(f"{archive} is damaged ({why}) and was deleted") from None
    if lacking := sorted({*makes} - {*parts}):
        some = ", ".join(lacking[:4])
        raise Refusal(f"{archive} does not hold {some}{' …' * (len(lacking) > 4)}")
    with on_disk(folder):
        for name, part in parts.items():
            os.replace(part, folder / name)
        archive.unlink()


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the path of every regular file of an archive, and a function to open it."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    yield info.filename, partial(packed.open, info)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                yield member.name, partial(tar.extractfile, member)
        while tar.fileobj and tar.fileobj.read(1 << 20):
            pass  # read to the end, where the checksum is
