"""Personal state of every client, one row each, wherever it fits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_BLOCK = 2**25  # numbers a block: growing never copies what is there


class Population:
    """The rows of all clients; a client that was never asked costs nothing.

    A row never written is `start`: the state that a client makes of the *first* shared
    model, whenever it first takes part.
    """

    def __init__(self, n: int, start: Tensor, store: torch.device) -> None:
        """Nothing is allocated yet.

        Args:
            n: clients.
            start: [width] the row of a client that was never asked.
            store: where rows are kept.
        """
        self.n, self.width = n, start.shape[0]
        self.start, self._store = start, store
        self._slot = np.full(n, -1, dtype=np.int64)
        self._per_block = max(1, min(n, _BLOCK // max(1, self.width)))
        self._blocks: list[Tensor] = []
        self._used = 0

    def read(self, clients: np.ndarray) -> Tensor:
        """The rows of some clients, [c, width], on the device of `start`."""
        if self.width == 0:
            return self.start.new_zeros(len(clients), 0)
        out = self.start.expand(len(clients), -1).clone()
        for block, places, offsets in self._places(self._slot[clients]):
            out[places] = block[offsets].to(out.device)
        return out

    def write(self, clients: np.ndarray, rows: Tensor) -> None:
        """Keep the rows of some clients."""
        if self.width == 0:
            return
        fresh = np.unique(clients[self._slot[clients] < 0])
        self._slot[fresh] = np.arange(self._used, self._used + len(fresh))
        self._used += len(fresh)
        while len(self._blocks) * self._per_block < self._used:
            shape = (self._per_block, self.width)
            self._blocks.append(
                torch.empty(shape, dtype=self.start.dtype, device=self._store)
            )
        for block, places, offsets in self._places(self._slot[clients]):
            block[offsets] = rows[places].to(self._store)

    def _places(self, slots: np.ndarray) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each block that holds some: (block, which were asked, where they are)."""
        found = []
        for b in np.unique(slots[slots >= 0] // self._per_block):
            where = np.flatnonzero((slots >= 0) & (slots // self._per_block == b))
            offsets = torch.from_numpy(slots[where] - b * self._per_block)
            places = torch.from_numpy(where).to(self.start.device)
            found.append((self._blocks[b], places, offsets.to(self._store)))
        return found

    @property
    def visited(self) -> np.ndarray:
        """Clients whose state has been written, ascending."""
        return np.flatnonzero(self._slot >= 0)

    @property
    def bytes(self) -> int:
        """What the rows take now."""
        return sum(b.numel() * b.element_size() for b in self._blocks)

    def dump(self) -> dict[str, Tensor]:
        """Everything as named tensors, for a file."""
        slot = torch.from_numpy(self._slot.copy())
        blocks = {}
        for i, block in enumerate(self._blocks):
            rows = min(self._per_block, self._used - i * self._per_block)
            blocks[f"block{i}"] = block[:rows].cpu()
        return {"slot": slot, **blocks}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take up what `dump` gave."""
        self._slot = tensors["slot"].numpy().copy()
        self._used = int((self._slot >= 0).sum())
        self._blocks = []
        for i in range(len(tensors) - 1):
            rows = tensors[f"block{i}"]
            shape = (self._per_block, self.width)
            block = torch.empty(shape, dtype=rows.dtype, device=self._store)
            block[: len(rows)] = rows.to(self._store)
            self._blocks.append(block)
