"""Folders that several processes write to, and what a file is known by."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from troth.progress import report
from troth.types import Refusal

try:
    import fcntl
except ImportError:  # Windows: there two downloads at once are not kept apart
    fcntl = None  # type: ignore[assignment]


def digest_of(path: Path, form: str) -> str:
    """The digest of a file, in the form of another: `md5:…` or `sha256:…`.

    `gunzip.md5:…` is that of what a gzip file holds, for the same content may be packed
    in many ways. A file that cannot be read has the digest "unreadable".
    """
    kind = form.partition(":")[0]
    packed, _, name = kind.rpartition(".")
    found = hashlib.new(name, usedforsecurity=False)
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    except (OSError, EOFError, zlib.error):
        return "unreadable"
    return f"{kind}:{found.hexdigest()}"


@contextlib.contextmanager
def on_disk(folder: Path) -> Iterator[None]:
    """A disk that is full or may not be written to is refused, by its name."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space" if full else "make it writable"
        raise Refusal(
            f"{folder} cannot be written to ({error.strerror or error}): {remedy}, "
            "or set XDG_CACHE_HOME to another folder"
        ) from None


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make a folder and have it to oneself: another process waits until we are done.

    The lock is the kernel's, so that one held by a process that died is free. The file
    `.lock` stays, for whoever deletes one may delete another's.
    """
    with on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "a+b")  # noqa: SIM115
    with lock:
        while not locked(lock):
            lock.seek(0)
            who = lock.read(20).decode("ascii", "replace").strip()
            report(f"waiting for process {who or '?'}, which is at it", 0, 0)
            time.sleep(0.1)
        with on_disk(folder):
            lock.truncate(0)
            lock.write(str(os.getpid()).encode())
            lock.flush()
        yield


def busy(file: Path) -> bool:
    """Whether a living process holds the lock of a file; nothing is changed."""
    try:
        with file.open("rb") as probe:
            if fcntl:
                fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or a file system without locks
        return False
    return False


def hold(lock: IO[Any]) -> bool:
    """Take a file's lock, though somebody may just be looking whether it is held."""
    for _ in range(20):
        if locked(lock):
            return True
        time.sleep(0.005)
    return False


def locked(lock: IO[Any] | int) -> bool:
    """Take a file's lock if it is free; without any, go on."""
    try:
        if fcntl:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
