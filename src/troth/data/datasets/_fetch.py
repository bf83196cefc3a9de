"""Files from the internet: whole, checked and in their place, or not there at all.

A download is written to `<file>.part` and put in its place once its size and its digest
are right. What a cut or a kill leaves of it is gone on with where a digest is published
that tells whether the parts belong together. `http_proxy`, `https_proxy` and `no_proxy`
are honoured; `TROTH_OFFLINE=1` forbids downloads. Nothing is printed: whoever wants to
see progress sets a function with `progress.watching`.
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
from pathlib import Path, PurePosixPath
from typing import IO, Any

from troth.files import digest_of, on_disk
from troth.progress import report
from troth.types import Refusal

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as cut."""
TRIES = 5
"""How often in a row nothing may come before it is given up."""
PAUSE = 1.0
"""Seconds before the second try; doubled each time."""
_LONGEST = 60.0  # seconds that a server may ask us to wait
_BUSY = {408, 425, 429, 500, 502, 503, 504}  # answers that may be others tomorrow


def offline() -> bool:
    """Whether the user forbids downloads."""
    return os.environ.get("TROTH_OFFLINE", "0") not in ("", "0")


class _Cut(Exception):
    """It did not come through this time, but may the next."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def fetch(url: str, target: Path, digest: str = "", size: int = 0) -> None:
    """Download a file, going on with what there is of it already.

    Args:
        url: where it is.
        target: where to put it; replaced only by the whole, right file.
        digest: what `digest_of` must give; "" is not known.
        size: its bytes; 0 is not known.

    Raises:
        Refusal: offline, not to be had, not what was expected, or no room.
    """
    if offline():
        raise Refusal("TROTH_OFFLINE is set, which forbids downloads")
    part = target.with_name(f"{target.name}.part")
    with on_disk(target.parent):
        resumed = digest and _have(part)
    _persist(url, part, bool(digest), size)
    with on_disk(target.parent):
        report(f"checking {target.name}", 0, 0)
        if wrong := _wrong(part, digest, size):
            part.unlink()
        else:
            os.replace(part, target)
    if wrong and resumed:  # what was left may have been damaged, or of another version
        fetch(url, target, digest, size)
    elif wrong:
        raise Refusal(f"{url} {wrong}; it was deleted: try again later")


def _have(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _wrong(part: Path, digest: str, size: int) -> str:
    """What is wrong with a finished download, or nothing."""
    if size and _have(part) != size:
        return f"has {_have(part):,} bytes where {size:,} are published"
    if digest and (found := digest_of(part, digest)) != digest:
        return f"has the digest {found} where {digest} is published"
    return ""


def _persist(url: str, part: Path, resume: bool, size: int) -> None:
    """Try until all is there, or until nothing more comes."""
    failed, most = 0, _have(part)
    while True:
        try:
            return _stream(url, part, resume, size)
        except _Cut as cut:
            failed = failed + 1 if _have(part) <= most else 1
            most = max(most, _have(part))
            if failed >= TRIES:
                raise Refusal(f"{url} did not come through: {cut}") from None
            report(f"{part.stem}: {cut}; trying again", 0, 0)
            time.sleep(max(cut.wait, PAUSE * 2 ** (failed - 1)))


def _stream(url: str, part: Path, resume: bool, size: int) -> None:
    """One request: append what is still missing, or write all anew."""
    with on_disk(part.parent):
        have = _have(part) if resume else 0
    if size and have == size:  # killed before it was put in its place
        return
    if size and have > size:
        have = 0
    headers = {"User-Agent": "troth"} | ({"Range": f"bytes={have}-"} if have else {})
    with _answer(url, headers, part) as response:
        start = have if response.status == 206 else 0
        span = response.headers.get("Content-Range", "")
        if start and not span.startswith(f"bytes {start}-"):
            part.unlink()
            raise _Cut(f"the server sent {span or 'an unnamed part'}")
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else 0
        if size and total and total != size:
            raise Refusal(f"{url} has {total:,} bytes where {size:,} are published")
        _copy(response, part, start, total or size)


def _answer(url: str, headers: dict[str, str], part: Path) -> Any:
    """The server's answer; an opener is made each time, for proxies may change."""
    try:
        request = urllib.request.Request(url, headers=headers)
        return urllib.request.build_opener().open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        said = f"the server answers {error.code} {error.reason}"
        error.close()
        if error.code == 416:  # there is no more than we have, or it is another file
            part.unlink(missing_ok=True)
        elif error.code not in _BUSY:
            raise Refusal(f"{url}: {said}") from None
        asked = error.headers.get("Retry-After", "")
        wait = float(asked) if asked.isdigit() else 0.0
        raise _Cut(said, min(wait, _LONGEST)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if _hopeless(reason):
            raise Refusal(f"{url} cannot be reached ({reason})") from None
        raise _Cut(str(reason) or type(reason).__name__) from None


def _hopeless(reason: Any) -> bool:
    """No address, no such host, no server to be trusted, or a proxy that forbids it."""
    address = (str, ValueError, http.client.InvalidURL)
    host = (socket.gaierror, ssl.SSLCertVerificationError)
    forbidden = "Tunnel connection failed: 4" in str(reason)
    return isinstance(reason, (*address, *host)) or forbidden


def _copy(response: Any, part: Path, done: int, total: int) -> None:
    """Write or append the body of an answer; one that ends too early is a cut."""
    with on_disk(part.parent):
        needed, free = total - done, shutil.disk_usage(part.parent).free
        if needed > free:
            text = f"{needed:,} bytes are needed, {free:,} are free"
            raise OSError(errno.ENOSPC, text)
        with part.open("ab" if done else "wb") as file:
            while block := _block(response):
                file.write(block)
                done += len(block)
                report(part.stem, done, total)
                if total and done > total:
                    return  # its size or its digest is refused later
            file.flush()
            os.fsync(file.fileno())
    if done < total:
        raise _Cut(f"the connection was cut after {done:,} of {total:,} bytes")


def _block(response: Any) -> bytes:
    try:
        return bytes(response.read1(1 << 16))
    except (OSError, http.client.HTTPException) as error:
        raise _Cut(
            f"the connection was cut ({error or type(error).__name__})"
        ) from None


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
        by_end.setdefault(PurePosixPath(name).name, []).append(name)
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


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
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
                yield member.name, partial(tar.extractfile, member)
        while tar.fileobj and tar.fileobj.read(1 << 20):
            pass  # its checksum stands at its very end


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
