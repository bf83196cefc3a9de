"""Who lies where: a table client → slot, of which a checkpoint stays true.

The slots that a checkpoint knows are never written again until the next checkpoint is
safe (shadow paging): the first write to a client after a checkpoint goes to another
slot. So a process may be killed at any moment, and the file of all rows still holds
what the last table says, though nothing was copied.

@article{lorie1977shadow,
  title={Physical Integrity in a Large Segmented Database},
  author={Lorie, Raymond A.},
  journal={ACM Transactions on Database Systems},
  volume={2}, number={1}, pages={91--104},
  year={1977}}
"""

from __future__ import annotations

import numpy as np


class Slots:
    """A table of n clients; one that was never written has no slot."""

    def __init__(self, n: int, shadow: bool) -> None:
        """Nobody has a slot.

        Args:
            n: clients.
            shadow: whether slots that `saved` has seen are kept; otherwise a client
                stays in its first slot for good.
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
