"""Personal state of every client, one row each, wherever it fits."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from troth import devices
from troth.engine.rowfile import RowFile, Slots

_BLOCK = {"cpu": 2**25, "cuda": 2**28}
"""Numbers a block: growing never copies what is there. On a GPU blocks are larger, for
each costs a round some launches."""


class Population:
    """The rows of all clients; a client that was never asked costs nothing.

    A row never written is `start`: the state that a client makes of the *first* shared
    model, whenever it first takes part.
    """

    def __init__(
        self,
        n: int,
        start: Tensor,
        store: torch.device | None,
        others: tuple[np.ndarray, Tensor] | None = None,
    ) -> None:
        """Nothing is allocated yet.

        Args:
            n: clients.
            start: [width] the row of a client that was never asked.
            store: where rows are kept; None is a file, which `open` names.
            others: clients that start from another row, and that row.
        """
        self._others = others
        self.n, self.width, self.start = n, start.shape[0], start
        self._rows: Blocks | RowFile
        if store is None and self.width:
            self._rows = RowFile(self.width, start.dtype, start.device)
        else:
            store = store or torch.device("cpu")
            self._rows = Blocks(n, self.width, start.dtype, store)
        self._slots = Slots(n, self._rows.shadow)
        self._asked = np.zeros(0, dtype=np.int64)  # whose rows were read last

    @property
    def on_disk(self) -> bool:
        """Whether rows are kept in a file."""
        return isinstance(self._rows, RowFile)

    def open(self, path: Path) -> None:
        """Keep the rows in this file, if they are to lie in one."""
        if isinstance(self._rows, RowFile):
            self._rows.open(path)

    def close(self) -> None:
        """Nothing more will be read or written."""
        self._rows.close()

    def read(self, clients: np.ndarray) -> Tensor:
        """The rows of some clients, [c, width], on the device of `start`."""
        self._asked = clients
        slots, device = self._slots.of(clients), self.start.device
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
        """Keep the rows of some clients, each named once."""
        if self.width and len(clients):
            self._rows.put(self._slots.take(clients), rows)

    def prefetch(self, clients: np.ndarray) -> None:
        """Rows that will be read next, unless those read last are written before."""
        if isinstance(self._rows, RowFile):
            slots = self._slots.of(clients[~np.isin(clients, self._asked)])
            self._rows.fetch(slots[slots >= 0])

    def each(self, groups: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, Tensor]]:
        """Groups of clients with their rows; the next are read ahead meanwhile."""
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

    @property
    def bytes(self) -> int:
        """What the rows take now, in memory or in the file."""
        return self._rows.bytes(self._slots.used)

    def dump(self) -> dict[str, Tensor]:
        """All that a checkpoint must hold: of rows in a file, only where they lie.

        Until `saved` or `load`, the file keeps the rows that this speaks of.
        """
        self._rows.sync()
        table = torch.from_numpy(self._slots.table.copy())
        return {"slot": table, **self._rows.dump(self._slots.used)}

    def saved(self) -> None:
        """What `dump` gave is safe."""
        self._slots.saved()

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take up what `dump` gave.

        Raises:
            Refusal: the file does not hold what the dump speaks of.
        """
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
        """The rows in some slots, [c, width]."""
        found = self._places(slots)
        if len(found) == 1:
            return found[0][0][found[0][2]]
        shape = (len(slots), self._shape[1])
        out = torch.empty(shape, dtype=self._dtype, device=self._store)
        for block, places, offsets in found:
            out[devices.sent(places, self._store)] = block[offsets]
        return out

    def put(self, slots: np.ndarray, rows: Tensor) -> None:
        """Keep rows."""
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
        """For each block that holds some: (block, which were asked, where they are)."""
        found, length = [], self._shape[0]
        for b in np.unique(slots // length):
            where = np.flatnonzero(slots // length == b)
            offsets = torch.from_numpy(slots[where] - b * length)
            offsets = devices.sent(offsets, self._store)
            found.append((self._blocks[b], torch.from_numpy(where), offsets))
        return found

    def bytes(self, used: int) -> int:
        """What the blocks take."""
        return sum(b.numel() * b.element_size() for b in self._blocks)

    def sync(self) -> None:
        """Memory is always as it was written."""

    def close(self) -> None:
        """Memory is given back when it is no longer used."""

    def dump(self, used: int) -> dict[str, Tensor]:
        """Copies of all rows."""
        blocks, length = {}, self._shape[0]
        for i, block in enumerate(self._blocks):
            blocks[f"block{i}"] = block[: used - i * length].to("cpu", copy=True)
        return blocks

    def load(self, tensors: dict[str, Tensor], used: int) -> None:
        """Take up what `dump` gave."""
        self._blocks, length = [], self._shape[0]
        self._grow(used)
        first = 0
        for i in range(sum(name.startswith("block") for name in tensors)):
            rows = tensors[f"block{i}"]  # as long as blocks were where it was written
            while len(rows):
                block, at = divmod(first, length)
                some, rows = rows.tensor_split([length - at])
                self._blocks[block][at : at + len(some)] = some.to(self._store)
                first += len(some)
