"""Client state, one row per client, in memory or in a file.

Rows in a file are read and written in place (`preadv`, `pwritev`), because a mapped
file would count as memory of the process. While clients train, one background thread
writes rows and reads rows ahead, in the order of the requests.
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
    """Rows in memory that are being written to the file, or read ahead from it."""

    slots: np.ndarray  # ascending
    place: np.ndarray  # index of each slot in `rows`
    rows: Tensor  # [c, width]
    work: Future[None]  # the write or read in the background

    def find(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the given slots are held, and their indices in `rows`."""
        if len(self.slots) == 0:
            return self.slots, self.slots
        near = np.searchsorted(self.slots, slots).clip(max=len(self.slots) - 1)
        mine = np.flatnonzero(self.slots[near] == slots)
        return mine, self.place[near[mine]]


class RowFile:
    """Rows in a file, numbered by slots.

    For CUDA, rows pass through pinned memory.
    """

    shadow = True  # rows outlive the process (see `Slots`)

    def __init__(self, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self.width, self.stride = width, width * dtype.itemsize
        self._dtype, self._pinned = dtype, device.type == "cuda"
        self._path, self._descriptor = Path(), -1
        self._thread = ThreadPoolExecutor(1, "rows")
        self._written: Held | None = None  # rows of the last `put`
        self._ahead: Held | None = None

    def open(self, path: Path) -> None:
        """Open the file, or create it."""
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

        Every slot may occur only once.
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
        """Read rows ahead in the background, and drop rows read ahead before."""
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
        """Return nothing: the rows are in the file."""
        return {}

    def load(self, tensors: dict[str, Tensor], used: int) -> None:
        """Return to a checkpoint: cut off all slots from number `used` on."""
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
        """Wait for the last write, which ends after all earlier ones."""
        if self._written is not None:
            self._call(self._written.work.result)

    def _call(self, work: Callable[[], Any]) -> None:
        """Do the work, and turn an error of the operating system into a refusal."""
        try:
            work()
        except OSError as error:
            raise Refusal(
                f"the state file {self._path} cannot be read or written "
                f"({error.strerror}); if its disk is full, make room and continue the "
                "run from its last checkpoint by troth resume"
            ) from None

    def _each(self, call: Any, slots: np.ndarray, rows: Tensor) -> None:
        """Read or write every row, and repeat the call until all bytes are done."""
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

        If `shadow` is true, slots in the last checkpoint are not overwritten until the
        next checkpoint: a client's next write goes to another slot. Otherwise, a client
        keeps its first slot.
        """
        self.table = np.full(n, -1, dtype=np.int64)  # slot of each client; −1: none
        self.used = 0  # one more than the largest slot in use
        self._shadow = shadow
        self._settled = np.zeros(n, dtype=bool)  # clients whose slot may be overwritten
        self._free = np.zeros(0, dtype=np.int64)
        self._left: list[np.ndarray] = []  # slots that clients left since `saved`

    def take(self, clients: np.ndarray) -> np.ndarray:
        """Assign the slots to which these clients may be written, and return them."""
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

        The slots in use are not overwritten until the next call. Slots that are no
        longer in the table can be used again.
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
"""Numbers in a block. Because of blocks, growing never copies rows. On a GPU blocks are
larger, because each block costs some kernel launches per round."""


class Population:
    """The states of all clients, one row per client.

    A client that never took part needs no memory. Its row is `start`, the state that a
    client makes from the *first* shared model, whenever the client first takes part.
    """

    def __init__(
        self,
        n: int,
        start: Tensor,  # [width] row of a client that never took part
        store: torch.device | None,  # device of rows; None: a file that `open` names
        others: tuple[np.ndarray, Tensor] | None = None,  # ids with another start row
    ) -> None:
        """Set up the store, without allocating rows yet."""
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
        """Store the rows in this file, if the run stores its state on disk."""
        if isinstance(self._rows, RowFile):
            self._rows.open(path)

    def close(self) -> None:
        """Finish all reading and writing."""
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
        """Read the rows needed next ahead of time, except those read last."""
        if isinstance(self._rows, RowFile):
            slots = self._slots.table[clients[~np.isin(clients, self._asked)]]
            self._rows.fetch(slots[slots >= 0])

    def each(self, groups: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, Tensor]]:
        """Yield groups of clients with their rows; read the next group ahead."""
        for clients, coming in pairwise([*groups, None]):
            assert clients is not None
            rows = self.read(clients)
            if coming is not None:
                self.prefetch(coming)
            yield clients, rows

    @property
    def visited(self) -> np.ndarray:
        """Clients whose state has been written, ascending."""
        return np.flatnonzero(self._slots.table >= 0)

    def dump(self) -> dict[str, Tensor]:
        """Return all tensors that a checkpoint must hold.

        For rows in a file, these are only their slots. The file keeps these rows until
        `saved` or `load` is called.
        """
        self._rows.sync()
        table = torch.from_numpy(self._slots.table.copy())
        return {"slot": table, **self._rows.dump(self._slots.used)}

    def saved(self) -> None:
        """Record that the tensors of the last `dump` are safely on disk."""
        self._slots.saved()

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state from the tensors that `dump` returned."""
        self._slots.load(tensors["slot"].numpy())
        self._rows.load(tensors, self._slots.used)


class Blocks:
    """Rows in memory, numbered by slots, in blocks that never move."""

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
        """List the blocks that hold some of the slots.

        An entry is (block, indices of the slots in it, their offsets in the block).
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
            rows = tensors[f"block{i}"]  # its length may differ from ours
            while len(rows):
                block, at = divmod(first, length)
                some, rows = rows.tensor_split([length - at])
                self._blocks[block][at : at + len(some)] = some.to(self._store)
                first += len(some)
