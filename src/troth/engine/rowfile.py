"""Rows in a file, for states that fit into no memory.

Read and written where they lie (`preadv`, `pwritev`): a mapped file would count as
memory of the process. One thread in the background writes what it was given and reads
ahead what will be asked for, in the order it was told, while the clients step.
"""

import errno
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import files
from troth.types import Refusal


class Held(NamedTuple):
    """Rows in memory: on their way to the file, or read ahead from it."""

    slots: np.ndarray  # ascending
    place: np.ndarray  # of each in rows
    rows: Tensor  # [c, width]
    work: Future[None]  # what writes or reads them

    def find(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of some slots are here, and where in the rows."""
        if len(self.slots) == 0:
            return self.slots, self.slots
        near = np.searchsorted(self.slots, slots).clip(max=len(self.slots) - 1)
        mine = np.flatnonzero(self.slots[near] == slots)
        return mine, self.place[near[mine]]


class RowFile:
    """Rows of one width, numbered by slots; nothing is kept before `open`.

    For a CUDA device they pass through pinned memory.
    """

    shadow = True  # rows survive the process: see `Slots`

    def __init__(self, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self.width, self.stride = width, width * dtype.itemsize
        self._dtype, self._pinned = dtype, device.type == "cuda"
        self._path, self._descriptor = Path(), -1
        self._thread = ThreadPoolExecutor(1, "rows")
        self._written: Held | None = None  # the last rows given
        self._ahead: Held | None = None

    def open(self, path: Path) -> None:
        """Use this file, which is made if it is not there.

        Raises:
            Refusal: it cannot be opened, or another process uses it.
        """
        if not hasattr(os, "preadv"):
            raise Refusal(
                "engine.store = 'disk' needs a system that reads files at any place, "
                "such as Linux or macOS; set it to 'host'"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if not files.locked(self._descriptor):
                raise BlockingIOError
        except BlockingIOError:
            self.close()
            raise Refusal(
                f"the state file {path} is in use by another process; wait for its end"
            ) from None
        except OSError as error:
            raise Refusal(
                f"the state file {path} cannot be opened ({error.strerror}); set "
                "engine.state_dir to a folder that you may write to"
            ) from None
        self._path = path

    def close(self) -> None:
        """Wait for what was given, and close the file; it stays where it is."""
        self._thread.shutdown()
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._written, self._ahead = -1, None, None

    def get(self, slots: np.ndarray) -> Tensor:
        """The rows in some slots, [c, width], on the host."""
        out, left = self._empty(len(slots)), np.arange(len(slots))
        if self._written is not None:
            mine, where = self._written.find(slots)
            out[mine] = self._written.rows[where]
            left = np.delete(left, mine)
        if self._ahead is not None:
            mine, where = self._ahead.find(slots[left])
            if len(mine):
                self._call(self._ahead.work.result)
                out[left[mine]] = self._ahead.rows[where]
                left, self._ahead = np.delete(left, mine), None
        if len(left):
            self._settle()
            rows = self._empty(len(left))
            self._call(lambda: self._each(os.preadv, slots[left], rows))
            out[left] = rows
        return out

    def put(self, slots: np.ndarray, rows: Tensor) -> None:
        """Write rows in the background, each slot once; those given before are done.

        Raises:
            Refusal: those given before could not be written.
        """
        assert self._descriptor >= 0, "open a file first"
        self._settle()
        order = np.argsort(slots)
        mine, held = slots[order], self._empty(len(slots))
        held.copy_(rows[torch.from_numpy(order).to(rows.device)])
        if (ahead := self._ahead) is not None:
            keep = ~np.isin(ahead.slots, mine)
            left, place = ahead.slots[keep], ahead.place[keep]
            self._ahead = ahead._replace(slots=left, place=place)
        self._written = self._held(os.pwritev, mine, held)

    def fetch(self, slots: np.ndarray) -> None:
        """Read rows ahead in the background; what was read ahead before is let go."""
        self._ahead = None
        rows = self._empty(len(slots))
        self._ahead = self._held(os.preadv, np.sort(slots), rows)

    def _held(self, call: Any, slots: np.ndarray, rows: Tensor) -> Held:
        started = self._thread.submit(self._each, call, slots, rows)
        return Held(slots, np.arange(len(slots)), rows, started)

    def sync(self) -> None:
        """Come back when all rows given are safe on the disk."""
        if self._descriptor >= 0:
            self._settle()
            flush = getattr(os, "fdatasync", os.fsync)
            self._call(lambda: flush(self._descriptor))

    def bytes(self, used: int) -> int:
        """What so many slots take."""
        return used * self.stride

    def dump(self, used: int) -> dict[str, Tensor]:
        """Nothing: the rows are in the file."""
        return {}

    def load(self, tensors: dict[str, Tensor], used: int) -> None:
        """Go back to so many slots; what lies behind them in the file is cut off.

        Raises:
            Refusal: the file does not even reach so far.
        """
        self._settle()
        self._written = self._ahead = None
        has, needs = os.fstat(self._descriptor).st_size, used * self.stride
        if has < needs:
            raise Refusal(
                f"the state file {self._path} has {has:,} bytes and the checkpoint "
                f"speaks of {needs:,}, so it was lost or changed; put the right one "
                "there, or run the experiment again"
            )
        os.ftruncate(self._descriptor, needs)

    def _empty(self, count: int) -> Tensor:
        shape = (count, self.width)
        return torch.empty(shape, dtype=self._dtype, pin_memory=self._pinned)

    def _settle(self) -> None:
        """Wait for the rows given last, and so for all before them."""
        if self._written is not None:
            self._call(self._written.work.result)

    def _call(self, work: Callable[[], Any]) -> None:
        """Do it; what the system does not allow becomes a sentence."""
        try:
            work()
        except OSError as error:
            raise Refusal(
                f"the state file {self._path} cannot be read or written "
                f"({error.strerror}); make room if its disk is full: the run can go "
                "on from its last checkpoint by troth resume"
            ) from None

    def _each(self, call: Any, slots: np.ndarray, rows: Tensor) -> None:
        """Repeat a read or write of every row until all of it is done."""
        memory = rows.view(torch.uint8).numpy()
        for slot, row in zip(slots.tolist(), memory, strict=True):
            left, offset = memoryview(row), slot * self.stride
            while left:
                done = call(self._descriptor, [left], offset)
                if done == 0:
                    raise OSError(errno.EIO, "it is shorter than it was")
                left, offset = left[done:], offset + done


class Slots:
    """A table of n clients; one that was never written has no slot."""

    def __init__(self, n: int, shadow: bool) -> None:
        """With `shadow`, slots that `saved` has seen are kept.

        Otherwise a client stays in its first slot for good.
        """
        self.table = np.full(n, -1, dtype=np.int64)
        self.used = 0  # all slots are below
        self._shadow = shadow
        self._settled = np.zeros(n, dtype=bool)  # may be written where they are
        self._free = np.zeros(0, dtype=np.int64)
        self._left: list[np.ndarray] = []  # by clients that moved since `saved`

    def of(self, clients: np.ndarray) -> np.ndarray:
        """Where clients lie; −1: nowhere yet."""
        found: np.ndarray = self.table[clients]
        return found

    def take(self, clients: np.ndarray) -> np.ndarray:
        """Where clients may be written, and lie from now on."""
        moving = np.unique(clients[~self._settled[clients]])
        before = self.table[moving]
        if (before >= 0).any():
            self._left.append(before[before >= 0])
        self.table[moving] = self._fresh(len(moving))
        self._settled[moving] = True
        return self.of(clients)

    def _fresh(self, count: int) -> np.ndarray:
        again = min(count, len(self._free))
        more = count - again
        ahead = np.arange(self.used, self.used + more)
        found = np.concatenate([self._free[:again], ahead])
        self._free, self.used = self._free[again:], self.used + more
        return found

    def saved(self) -> None:
        """The table as it is now is safe: what it does not name may be used again."""
        if self._shadow:
            self._free = np.sort(np.concatenate([self._free, *self._left]))
            self._left = []
            self._settled[:] = False

    def load(self, table: np.ndarray) -> None:
        """Go back to a table that was saved."""
        self.table = table.copy()
        taken = self.table[self.table >= 0]
        self.used = int(taken.max(initial=-1)) + 1
        self._free = np.setdiff1d(np.arange(self.used), taken)
        self._left = []
        self._settled = (self.table >= 0) & (not self._shadow)
