"""Names and formats of a run's files; every file is written atomically."""

import contextlib
import csv
import errno
import gzip
import hashlib
import io
import json
import math
import os
import shutil
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from troth.progress import report
from troth.types import Refusal

OWNER = "owner"  # column of CLIENTS with names of clients
EXPERIMENT, ROUNDS, CLIENTS = "experiment.toml", "rounds.jsonl", "clients.csv"
SUMMARY, SHARED, PERSONAL = "summary.json", "shared.safetensors", "personal.safetensors"
CHECKPOINT, GRID = "checkpoint/state.safetensors", "grid.toml"
FEATURES, AUDIT = "features.safetensors", "audit.csv"
CERTIFICATES, CHAIN = "certificates.csv", "chain.json"
ENDED = "ended.json"  # why a run ended early; a finished run has none
STAGES = ("gradient", "model", "data")  # of an attack chain, in order
METRICS = ("accuracy", "error")
"""Metrics by which clients are compared; the first one that a table has is used."""
_KINDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""torch dtype → its name in the safetensors format."""


def cache() -> Path:
    """Return Troth's folder in the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root) / "troth"


def create(path: Path, name: str, text: str) -> None:
    """Create a folder with a first file, atomically; raise Refusal if this fails."""
    check_free(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with refused(f"the output folder {path}", "give another --out"):
            part.mkdir(parents=True)
            put(part / name, text.encode())
            part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_free(path: Path) -> None:
    """Raise Refusal if an output folder exists already or cannot be written."""
    if path.exists():
        raise Refusal(
            f"the output folder {path} exists already; give another one with --out, "
            f"or continue its run with: troth resume {path}"
        )
    parent = above(path)
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise Refusal(
            f"the output folder {path} cannot be written ({parent} is not a folder you "
            "may write to); give another --out"
        )


def above(path: Path) -> Path:
    """Return the nearest existing folder above a path."""
    return next(p for p in path.absolute().parents if p.exists())


@contextlib.contextmanager
def refused(what: object, remedy: str) -> Iterator[None]:
    """Within the block, convert an error of the file system to Refusal."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise Refusal(f"{what} cannot be written ({why}); {remedy}") from None


def write(path: Path, text: str) -> None:
    """Write a text file atomically; raise Refusal if this fails.

    Other processes may write the same file at the same time.
    """
    with refused(path, "give another place with --out, or make room on a full disk"):
        put(path, text.encode())


def put(path: Path, content: bytes) -> None:
    """Write bytes to a file atomically; raise OSError if this fails."""
    with whole(path) as file:
        file.write(content)


@contextlib.contextmanager
def whole(path: Path, part: Path | None = None) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `path` atomically at the end of the block.

    The old content stays until the new content is on the disk. Errors of the file
    system are not caught.

    Args:
        path: File to write.
        part: Temporary file; `None` means a name that no other thread uses.
    """
    own = f"{os.getpid()}-{threading.get_native_id()}"
    part = part or path.with_name(f".{path.name[:40]}.{own}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        with contextlib.suppress(OSError):  # after a power loss, the new name exists
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON in full precision; NaN and infinity become null."""
    write(path, json.dumps(plain(value), indent=2) + "\n")


def plain(value: Any) -> Any:
    """Convert a value to types of JSON; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        numbers = all(type(v) is int for v in value)  # such as a cohort
        return [*value] if numbers else [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a table of columns in full precision; NaN becomes an empty cell."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(columns)
    for row in zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True):
        out.writerow(["" if v != v else v for v in row])
    write(path, text.getvalue())


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """Read a table as columns of numbers; an empty cell becomes NaN.

    The column `owner` has texts.
    """
    with path.open(encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    columns = zip(*rows, strict=True) if rows else [()] * len(head)
    pairs = zip(head, columns, strict=True)
    return {n: np.array(c) if n == OWNER else _numbers(c) for n, c in pairs}


def _numbers(cells: Sequence[str]) -> np.ndarray:
    if cells and cells[0] in ("True", "False"):
        return np.array([cell == "True" for cell in cells])
    return np.array([float(cell or "nan") for cell in cells])


def save(path: Path, tensors: Mapping[str, Tensor], **facts: Any) -> None:
    """Write tensors and facts to a safetensors file, atomically.

    Facts are values that JSON supports; they are stored in the file's metadata.
    """
    wide = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    shapes = {name: (tensors[name].dtype, [*tensors[name].shape]) for name in wide}
    stream(path, shapes, (tensors[name] for name in wide), **facts)


def stream(
    path: Path,
    shapes: Mapping[str, tuple[torch.dtype, list[int]]],
    pieces: Iterable[Tensor],
    **facts: Any,
) -> None:
    """Write tensors to a safetensors file while they are computed, atomically.

    Args:
        path: File to write.
        shapes: Name → dtype and shape, with the widest dtypes first.
        pieces: Values in the order of `shapes`, in pieces of any size.
        **facts: Values that JSON supports, stored in the file's metadata.
    """
    header, length = _header(shapes, facts)
    remedy = "make room on a full disk, and continue the run by: troth resume"
    with refused(path, remedy):
        path.parent.mkdir(exist_ok=True)
        with whole(path, path.with_name(path.name + ".part")) as file:
            file.write(header)
            for piece in pieces:
                flat = piece.detach().cpu().contiguous().reshape(-1)
                file.write(flat.view(torch.uint8).numpy().data)
            assert file.tell() == length


def _header(
    shapes: Mapping[str, tuple[torch.dtype, list[int]]], facts: dict[str, Any]
) -> tuple[bytes, int]:
    """Return the length and content of the header, and the length of the whole file."""
    entries: dict[str, Any] = {"__metadata__": {"facts": json.dumps(facts)}}
    end = 0
    for name, (dtype, shape) in shapes.items():
        begin, end = end, end + math.prod(shape) * dtype.itemsize
        entries[name] = {"dtype": _KINDS[dtype], "shape": shape}
        entries[name]["data_offsets"] = [begin, end]
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, 8 + len(text) + end


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and facts from a file that `save` wrote."""
    with safe_open(path, "pt") as file:
        facts = json.loads((file.metadata() or {}).get("facts", "{}"))
        return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118


def load_model(path: Path, client: int) -> Tensor:
    """Read the personal model [d] of one client from the file of all personal models.

    The file is not mapped into memory, because limits of memory may not allow that.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))

        def read(name: str, first: int, count: int) -> Tensor:
            entry = header[name]
            dtype = next(t for t, kind in _KINDS.items() if kind == entry["dtype"])
            begin = first * dtype.itemsize + entry["data_offsets"][0]
            file.seek(8 + length + begin)
            data = bytearray(file.read(count * dtype.itemsize))
            return torch.frombuffer(data, dtype=dtype)

        rows, d = header["parameters"]["shape"]
        clients = read("client", 0, rows)
        found = (clients == client).nonzero().flatten()
        if len(found) == 0:  # clients that never took part share a model
            found = (clients == -1).nonzero().flatten()
        return read("parameters", int(found[0]) * d, d)


try:
    import fcntl
except ImportError:  # on Windows, files are not locked
    fcntl = None  # type: ignore[assignment]


def version(path: str) -> tuple[int, ...]:
    """Return a file's modification time, size and inode; () if there is no file."""
    try:
        found = os.stat(os.path.expanduser(path))
    except (OSError, ValueError):
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def digest_of(path: Path, form: str) -> str:
    """Return the digest of a file, of the same type as the digest `form`.

    Digests are `md5:…` or `sha256:…`. `gunzip.md5:…` is the digest of the unpacked
    content, because the same content may be packed in different ways. If the file
    cannot be read, the result is "unreadable".
    """
    kind = form.partition(":")[0]
    packed, _, name = kind.rpartition(".")
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            new = lambda: hashlib.new(name, usedforsecurity=False)  # noqa: E731
            digest = hashlib.file_digest(file, new)
    except (OSError, EOFError, zlib.error):
        return "unreadable"
    return f"{kind}:{digest.hexdigest()}"


@contextlib.contextmanager
def on_disk(folder: Path) -> Iterator[None]:
    """Within the block, convert an error of the file system to Refusal.

    The message has the folder and a remedy.
    """
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
    """Within the block, lock a folder, which is created if it does not exist.

    Other processes wait until the block ends. The kernel removes the lock if the
    process dies. The file `.lock` is never deleted, because a process could delete the
    lock file of another one.
    """
    with on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "a+b")  # noqa: SIM115
    with lock:
        while not locked(lock):
            lock.seek(0)
            who = lock.read(20).decode("ascii", "replace").strip()
            report(f"waiting for process {who or '?'} to finish this", 0, 0)
            time.sleep(0.1)
        with on_disk(folder):
            lock.truncate(0)
            lock.write(str(os.getpid()).encode())
            lock.flush()
        yield


def busy(file: Path) -> bool:
    """Return whether a process has locked a file."""
    try:
        with file.open("rb") as probe:
            return not locked(probe, shared=True)
    except OSError:  # no such file
        return False


def hold(lock: IO[Any]) -> bool:
    """Lock a file; return whether this succeeded.

    Failures are repeated for a short time, because another process may just be testing
    the lock.
    """
    for _ in range(20):
        if locked(lock):
            return True
        time.sleep(0.005)
    return False


def locked(lock: IO[Any] | int, shared: bool = False) -> bool:
    """Lock a file without waiting; return whether this succeeded.

    If the file system has no locks, return true.
    """
    try:
        if fcntl:
            how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        pass
    return True
