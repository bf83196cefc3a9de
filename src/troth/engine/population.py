"""The clients' states, one row per client, in memory or in a file.

Rows in a file are read and written by `preadv` and `pwritev`, because a mapped file
would be counted as memory of the process. While clients train, a background thread
writes rows, and reads the rows of the next round, in the order of the requests.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import devices, files
from troth.types import Refusal


class Held(NamedTuple):
    """Rows in memory that a background thread writes to the file or reads from it."""

    slots: np.ndarray  # sorted
    place: np.ndarray  # index in `rows` of each slot
    rows: Tensor  # [c, width]
    work: Future[None]  # the write or read in the background

    def find(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the given slots are here, and their indices in `rows`."""
        if len(self.slots) == 0:
            return self.slots, self.slots
        near = np.searchsorted(self.slots, slots).clip(max=len(self.slots) - 1)
        mine = np.flatnonzero(self.slots[near] == slots)
        return mine, self.place[near[mine]]


class RowFile:
    """Rows in a file; the index of a row is called slot.

    For CUDA, rows are copied through pinned memory.
    """

    shadow = True  # rows survive the process (see `Slots`)

    def __init__(self, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self.width, self.stride = width, width * dtype.itemsize
        self._dtype, self._pinned = dtype, device.type == "cuda"
        self._path, self._descriptor = Path(), -1
        self._thread = ThreadPoolExecutor(1, "rows")
        self._written: Held | None = None  # rows of the last `put`
        self._ahead: Held | None = None

    def open(self, path: Path) -> None:
        """Open or create the file; raise Refusal if this fails or it is in use."""
        if not hasattr(os, "preadv"):
            raise Refusal(
                "engine.store = 'disk' needs a system that reads files at any place, "
                "such as Linux or macOS; set it to 'host'"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Refusal(
                f"the state file {path} cannot be opened ({error.strerror}); set "
                "engine.state_dir to a folder that you may write to"
            ) from None
        if not files.locked(self._descriptor):
            self.close()
            raise Refusal(
                f"the state file {path} is in use by another process; wait for its end"
            )
        self._path = path

    def close(self) -> None:
        """Finish pending writes and close the file, which stays on disk."""
        self._thread.shutdown()
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._written, self._ahead = -1, None, None

    def get(self, slots: np.ndarray) -> Tensor:
        """Return the rows in the given slots, [c, width], on the host."""
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
        """Write rows in the background, after the previous write has ended.

        No slot may occur twice.
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
        """Begin to read rows in the background; `get` returns them later.

        Rows that were fetched before are dropped.
        """
        self._ahead = None
        rows = self._empty(len(slots))
        self._ahead = self._held(os.preadv, np.sort(slots), rows)

    def _held(self, call: Any, slots: np.ndarray, rows: Tensor) -> Held:
        started = self._thread.submit(self._each, call, slots, rows)
        return Held(slots, np.arange(len(slots)), rows, started)

    def sync(self) -> None:
        """Wait until all rows are safely on the disk."""
        if self._descriptor >= 0:
            self._settle()
            flush = getattr(os, "fdatasync", os.fsync)
            self._call(lambda: flush(self._descriptor))

    def dump(self, used: int) -> dict[str, Tensor]:
        """Return no tensors, because the rows are in the file."""
        return {}

    def load(self, tensors: dict[str, Tensor], used: int) -> None:
        """Restore a checkpoint: cut off all slots from `used` on.

        Raise Refusal if the file is shorter than that.
        """
        self._settle()
        self._written = self._ahead = None
        has, needs = os.fstat(self._descriptor).st_size, used * self.stride
        if has < needs:
            raise Refusal(
                f"the state file {self._path} has {has:,} bytes and the checkpoint "
                f"needs {needs:,}, so the file was lost or changed; put the right file "
                "there, or run the experiment again"
            )
        os.ftruncate(self._descriptor, needs)

    def _empty(self, count: int) -> Tensor:
        shape = (count, self.width)
        return torch.empty(shape, dtype=self._dtype, pin_memory=self._pinned)

    def _settle(self) -> None:
        """Wait for the last write, and so for all writes."""
        if self._written is not None:
            self._call(self._written.work.result)

    def _call(self, work: Callable[[], Any]) -> None:
        """Call a function; convert an error of the operating system to Refusal."""
        try:
            work()
        except OSError as error:
            raise Refusal(
                f"the state file {self._path} cannot be read or written "
                f"({error.strerror}); if its disk is full, make room and continue the "
                "run from its last checkpoint by troth resume"
            ) from None

    def _each(self, call: Any, slots: np.ndarray, rows: Tensor) -> None:
        """Read or write every row, with repeated calls until all bytes are done."""
        memory = rows.view(torch.uint8).numpy()
        for slot, row in zip(slots.tolist(), memory, strict=True):
            left, offset = memoryview(row), slot * self.stride
            while left:
                done = call(self._descriptor, [left], offset)
                if done == 0:
                    raise OSError(errno.EIO, "it is shorter than it was")
                left, offset = left[done:], offset + done


class Slots:
    """Table from n clients to slots; a client that was never written has no slot."""

    def __init__(self, n: int, shadow: bool) -> None:
        """Start with an empty table.

        If `shadow`, slots that belong to the last checkpoint are not overwritten before
        the next checkpoint: a client is then written to another slot. Otherwise, a
        client always has the same slot.
        """
        self.table = np.full(n, -1, dtype=np.int64)  # slot per client; −1: none
        self.used = 0  # one more than the largest slot in use
        self._shadow = shadow
        self._settled = np.zeros(n, dtype=bool)  # clients whose slot may be overwritten
        self._free = np.zeros(0, dtype=np.int64)
        self._left: list[np.ndarray] = []  # slots that became unused since `saved`

    def take(self, clients: np.ndarray) -> np.ndarray:
        """Return the slots to which these clients may be written."""
        moving = np.unique(clients[~self._settled[clients]])
        before = self.table[moving]
        if (before >= 0).any():
            self._left.append(before[before >= 0])
        again, self._free = np.split(self._free, [len(moving)])
        end = self.used + len(moving) - len(again)
        self.table[moving] = np.concatenate([again, np.arange(self.used, end)])
        self.used, self._settled[moving] = end, True
        return self.table[clients]  # type: ignore[no-any-return]

    def saved(self) -> None:
        """Record that the table is in a checkpoint.

        The slots in the table are not overwritten before the next call. Slots that are
        no longer in the table can be used again.
        """
        if self._shadow:
            self._free = np.sort(np.concatenate([self._free, *self._left]))
            self._left = []
            self._settled[:] = False

    def load(self, table: np.ndarray) -> None:
        """Restore the table of a checkpoint."""
        self.table = table.copy()
        taken = self.table[self.table >= 0]
        self.used = int(taken.max(initial=-1)) + 1
        self._free = np.setdiff1d(np.arange(self.used), taken)
        self._left = []
        self._settled = (self.table >= 0) & (not self._shadow)


_BLOCK = {"cpu": 2**25, "cuda": 2**28}
"""Number of entries in a block. With blocks, rows need not be copied when clients are
added. On a GPU, blocks are larger, because each block takes some kernel launches per
round."""


class Population:
    """The states of all clients, one row per client.

    A client that never took part needs no memory. Its row is `start`, the state that
    follows from the *first* shared model, even if the client takes part much later.
    """

    def __init__(
        self,
        n: int,
        start: Tensor,  # [width] row of a client that never took part
        store: torch.device | None,  # device of rows; None means a file, see `open`
        others: tuple[np.ndarray, Tensor] | None = None,  # ids with another `start`
    ) -> None:
        """Set up the storage, without allocating rows."""
        self._others = others
        self.n, self.width, self.start = n, start.shape[0], start
        self._rows: Blocks | RowFile
        if store is None and self.width:
            self._rows = RowFile(self.width, start.dtype, start.device)
        else:
            store = store or torch.device("cpu")
            self._rows = Blocks(n, self.width, start.dtype, store)
        self._slots = Slots(n, self._rows.shadow)
        self._asked = np.zeros(0, dtype=np.int64)  # clients whose rows were read last

    @property
    def on_disk(self) -> bool:
        """Whether rows are stored in a file."""
        return isinstance(self._rows, RowFile)

    def open(self, path: Path) -> None:
        """Open the file of rows; do nothing if rows are in memory."""
        if isinstance(self._rows, RowFile):
            self._rows.open(path)

    def close(self) -> None:
        """Finish all writes, and close the file, if any."""
        self._rows.close()

    def read(self, clients: np.ndarray) -> Tensor:
        """Return the rows of some clients, [c, width], on the device of `start`."""
        self._asked = clients
        slots, device = self._slots.table[clients], self.start.device
        known = np.flatnonzero(slots >= 0)
        if self.width and len(known) == len(clients) > 0:
            return self._rows.get(slots).to(device)
        out = self.start.expand(len(clients), -1).clone()
        if self._others is not None:
            theirs, row = self._others
            out[torch.from_numpy(np.isin(clients, theirs)).to(device)] = row
        if self.width and len(known):
            places = torch.from_numpy(known).to(device)
            out[places] = self._rows.get(slots[known]).to(device)
        return out

    def write(self, clients: np.ndarray, rows: Tensor) -> None:
        """Store the rows of some clients; no client may occur twice."""
        if self.width and len(clients):
            self._rows.put(self._slots.take(clients), rows)

    def prefetch(self, clients: np.ndarray) -> None:
        """Begin to read the rows of these clients, except those that were read last."""
        if isinstance(self._rows, RowFile):
            slots = self._slots.table[clients[~np.isin(clients, self._asked)]]
            self._rows.fetch(slots[slots >= 0])

    def each(self, groups: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, Tensor]]:
        """Yield groups of clients with their rows; begin to read the next group."""
        for clients, coming in pairwise([*groups, None]):
            assert clients is not None
            rows = self.read(clients)
            if coming is not None:
                self.prefetch(coming)
            yield clients, rows

    @property
    def visited(self) -> np.ndarray:
        """Sorted ids of the clients whose state has been written."""
        return np.flatnonzero(self._slots.table >= 0)

    def dump(self) -> dict[str, Tensor]:
        """Return the tensors for a checkpoint.

        If rows are in a file, this is only the table of slots. The rows in the file
        stay unchanged until `saved` or `load` is called.
        """
        self._rows.sync()
        table = torch.from_numpy(self._slots.table.copy())
        return {"slot": table, **self._rows.dump(self._slots.used)}

    def saved(self) -> None:
        """Record that the tensors of the last `dump` are in a checkpoint on disk."""
        self._slots.saved()

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state from the tensors that `dump` returned."""
        self._slots.load(tensors["slot"].numpy())
        self._rows.load(tensors, self._slots.used)


class Blocks:
    """Rows in memory, in blocks that are never copied; slots are indices of rows."""

    shadow = False

    def __init__(
        self, n: int, width: int, dtype: torch.dtype, store: torch.device
    ) -> None:
        self._dtype, self._store = dtype, store
        few = -(-n * width // _BLOCK.get(store.type, _BLOCK["cpu"])) or 1
        self._shape = (max(1, -(-n // few)), width)
        self._blocks: list[Tensor] = []

    def get(self, slots: np.ndarray) -> Tensor:
        """Return the rows in the given slots, [c, width]."""
        found = self._places(slots)
        if len(found) == 1:
            return found[0][0][found[0][2]]
        shape = (len(slots), self._shape[1])
        out = torch.empty(shape, dtype=self._dtype, device=self._store)
        for block, places, offsets in found:
            out[devices.sent(places, self._store)] = block[offsets]
        return out

    def put(self, slots: np.ndarray, rows: Tensor) -> None:
        """Store rows in the given slots."""
        self._grow(int(slots.max()) + 1)
        found = self._places(slots)
        for block, places, offsets in found:
            some = rows
            if len(found) > 1:
                some = rows[devices.sent(places, rows.device)]
            block[offsets] = some.to(self._store)

    def _grow(self, used: int) -> None:
        while len(self._blocks) * self._shape[0] < used:
            empty = torch.empty(self._shape, dtype=self._dtype, device=self._store)
            self._blocks.append(empty)

    def _places(self, slots: np.ndarray) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return the blocks that contain the slots.

        An entry is (block, indices into `slots`, offsets of these slots in the block).
        """
        found, length = [], self._shape[0]
        for b in np.unique(slots // length):
            where = np.flatnonzero(slots // length == b)
            offsets = torch.from_numpy(slots[where] - b * length)
            offsets = devices.sent(offsets, self._store)
            found.append((self._blocks[b], torch.from_numpy(where), offsets))
        return found

    def sync(self) -> None:
        """Do nothing, because memory is always up to date."""

    def close(self) -> None:
        """Do nothing, because memory is freed when it is no longer used."""

    def dump(self, used: int) -> dict[str, Tensor]:
        """Return copies of all rows, on the host."""
        blocks, length = {}, self._shape[0]
        for i, block in enumerate(self._blocks):
            blocks[f"block{i}"] = block[: used - i * length].to("cpu", copy=True)
        return blocks

    def load(self, tensors: dict[str, Tensor], used: int) -> None:
        """Restore the rows from the tensors that `dump` returned."""
        self._blocks, length = [], self._shape[0]
        self._grow(used)
        first = 0
        for i in range(sum(name.startswith("block") for name in tensors)):
            rows = tensors[f"block{i}"]  # blocks may have had another length
            while len(rows):
                block, at = divmod(first, length)
                some, rows = rows.tensor_split([length - at])
                self._blocks[block][at : at + len(some)] = some.to(self._store)
                first += len(some)
