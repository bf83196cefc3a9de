"""Files from the internet: whole, checked and in their place, or not there at all.

A download is written to `<file>.part` and put in its place once its size and its digest
are right. What a cut or a kill leaves of it is gone on with, unless the file on the
server has changed since. `http_proxy`, `https_proxy` and `no_proxy` are honoured;
`TROTH_OFFLINE=1` forbids downloads. Nothing is printed: whoever wants to see progress
sets a function with `notice.watching`.
"""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

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
_BLOCK = 1 << 16
_BUSY = {408, 425, 429, 500, 502, 503, 504}  # answers that may be others tomorrow


def offline() -> bool:
    """Whether the user forbids downloads."""
    return os.environ.get("TROTH_OFFLINE", "0") not in ("", "0")


class _Cut(Exception):
    """It did not come through this time, but may the next."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _Part:
    """What there is of a download: the bytes so far and which version they are of."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f"{target.name}.part")
        self._tag = target.with_name(f"{target.name}.part.tag")

    def have(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def tag(self) -> str:
        """What the server called this version; "" if it did not."""
        return self._tag.read_text("latin-1") if self._tag.exists() else ""

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
        self._tag.unlink(missing_ok=True)

    def begin(self, tag: str) -> None:
        """Start anew; the tag first, for a kill may come between."""
        self.clear()
        self._tag.write_text(tag, "latin-1")

    def end(self, target: Path) -> None:
        os.replace(self.path, target)
        self.clear()


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
    part = _Part(target)
    with on_disk(target.parent):
        resumed = part.have() > 0
    _persist(url, part, size)
    with on_disk(target.parent):
        report(f"checking {target.name}", 0, 0)
        wrong = _wrong(part, digest, size)
        if wrong:
            part.clear()
        else:
            part.end(target)
    if wrong and resumed:  # what an earlier process left may have been damaged
        fetch(url, target, digest, size)
    elif wrong:
        raise Refusal(f"{url} {wrong}; it was deleted: try again later")


def _wrong(part: _Part, digest: str, size: int) -> str:
    """What is wrong with a finished download, or nothing."""
    if size and part.have() != size:
        return f"has {part.have():,} bytes where {size:,} are published"
    found = digest_of(part.path, digest) if digest else ""
    return (
        f"has the digest {found} where {digest} is published" if found != digest else ""
    )


def _persist(url: str, part: _Part, size: int) -> None:
    """Try until all is there, or until nothing more comes."""
    failed, most = 0, part.have()
    while True:
        try:
            return _stream(url, part, size)
        except _Cut as cut:
            failed = failed + 1 if part.have() <= most else 1
            most = max(most, part.have())
            if failed >= TRIES:
                raise Refusal(f"{url} did not come through: {cut}") from None
            wait = max(cut.wait, PAUSE * 2 ** (failed - 1))
            report(f"{part.path.stem}: {cut}; trying again", 0, 0)
            time.sleep(wait)


def _stream(url: str, part: _Part, size: int) -> None:
    """One request: append what is still missing, or write all anew."""
    folder = part.path.parent
    with on_disk(folder):
        have, tag = part.have(), part.tag()
        if size and have == size:  # killed before it was put in its place
            return
        if have and (not tag or (size and have > size)):
            part.clear()
            have = 0
    headers = {"User-Agent": "troth"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}
    with _answer(url, headers, part) as response:
        start = have if response.status == 206 else 0
        span = response.headers.get("Content-Range", "")
        if start and not span.startswith(f"bytes {start}-"):
            part.clear()
            raise _Cut(f"the server sent {span or 'an unnamed part'}")
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else 0
        if size and total and total != size:
            raise Refusal(f"{url} has {total:,} bytes where {size:,} are published")
        with on_disk(folder):
            if not start:
                part.begin(_version(response))
            _room(folder, (total or size) - start)
        _copy(response, part, start, total or size)


def _answer(url: str, headers: dict[str, str], part: _Part) -> Any:
    """The server's answer; an opener is made each time, for proxies may change."""
    try:
        request = urllib.request.Request(url, headers=headers)
        return urllib.request.build_opener().open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        said = f"the server answers {error.code} {error.reason}"
        error.close()
        if error.code == 416:  # there is no more than we have, or it is another file
            part.clear()
            raise _Cut(said) from None
        if error.code not in _BUSY:
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


def _version(response: Any) -> str:
    """What names this version of the file for `If-Range`; a weak tag does not."""
    tag = str(response.headers.get("ETag", ""))
    date = str(response.headers.get("Last-Modified", ""))
    return tag if tag.startswith('"') else date


def _room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed, {free:,} are free")


def _copy(response: Any, part: _Part, done: int, total: int) -> None:
    """Append the body of an answer; one that ends too early is a cut."""
    with on_disk(part.path.parent), part.path.open("ab") as file:
        while block := _block(response):
            file.write(block)
            done += len(block)
            report(part.path.stem, done, total)
            if total and done > total:
                return  # its size or its digest is refused later
        file.flush()
        os.fsync(file.fileno())
    if done < total:
        raise _Cut(f"the connection was cut after {done:,} of {total:,} bytes")


def _block(response: Any) -> bytes:
    try:
        return bytes(response.read1(_BLOCK))
    except (OSError, http.client.HTTPException) as error:
        raise _Cut(
            f"the connection was cut ({error or type(error).__name__})"
        ) from None
