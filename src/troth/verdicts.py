"""What rules say of the rows they got: whom they clipped, chose, weighed or merged."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Note = Callable[..., None]
"""A rule that asks for `note` calls it with what it did, a value a row it was given:

    clipped: [n] mask of rows that it scaled down.
    chosen: [n] mask of rows that its result is made of; the others count for nothing.
    weight: [n] share of each row in its result; they sum to 1.
    merged: [n] mask of rows that went into the row of another (filters).
"""


def silent(**said: Tensor) -> None:
    """Nobody listens."""


class Verdicts:
    """A listener: verdict → the clients that it fell on."""

    def __init__(self) -> None:
        self.clients: dict[str, set[int]] = {}

    def of(self, client: Tensor) -> Note:
        """A `note` for a rule that is given the rows of these clients."""

        def note(**said: Tensor) -> None:
            for name, rows in said.items():
                mask = _light(rows) if name == "weight" else rows
                name = "downweighted" if name == "weight" else name
                known = self.clients.setdefault(name, set())
                known |= {*client[mask.to(client.device)].tolist()}

        return note


def _light(weight: Tensor) -> Tensor:
    """Rows that count for less than an equal share."""
    return weight < (1 - 1e-6) / max(1, len(weight))
