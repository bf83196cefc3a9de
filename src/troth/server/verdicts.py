"""What rules say of the rows they got: whom they clipped, chose, weighed or merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from troth.types import Broadcast, Messages, Refusal

_NAMES = ("clipped", "chosen", "weight", "into")
Note = Callable[..., None]
"""A rule that asks for `note` calls it with what it did, a value a row it was given:

    clipped: [n] mask of rows that it scaled down.
    chosen: [n] mask of rows that its result is made of; the others count for nothing.
    weight: [n] share of each row in its result; they sum to 1.
    into: [n] client that bears the row which each one's went into, often its own (for
        filters that merge rows); what later rules say of that row then falls on all
        whose rows it holds.
"""


Within = dict[int, set[int]]
"""Client → whose rows its row holds; who is not in it bears its own."""


def silent(**said: Tensor) -> None:
    """Nobody listens."""


class Verdicts:
    """A listener; whoever it heard of is looked up when that is asked for."""

    def __init__(self) -> None:
        self.within: Within = {}
        self._said: list[tuple[str, Tensor, Tensor, Within]] = []  # on the device yet

    def of(self, client: Tensor) -> Note:
        """A `note` for a rule that is given the rows of these clients."""

        def note(**said: Tensor) -> None:
            for name, rows in said.items():
                _check(name, rows, len(client))
                if name == "into":
                    self._merge(client.tolist(), rows.tolist())
                    continue
                # A copy: it is read when the rule may have gone on with its own.
                mask = _light(rows) if name == "weight" else rows.clone()
                name = "downweighted" if name == "weight" else name
                self._said.append((name, client, mask, self.within))

        return note

    def clients(self) -> dict[str, set[int]]:
        """Verdict → the clients that it fell on; a device is waited for."""
        found: dict[str, set[int]] = {}
        for name, client, mask, within in self._said:
            pairs = zip(client.tolist(), mask.tolist(), strict=True)
            rows = [one for one, fell in pairs if fell]
            found.setdefault(name, set()).update(behind(rows, within))
        return found

    def behind(self, clients: list[int]) -> set[int]:
        """Everyone whose row is in the rows that these clients bear by now."""
        return behind(clients, self.within)

    def _merge(self, client: list[int], into: list[int]) -> None:
        """From now on some rows hold those of several clients."""
        within: Within = {}
        for one, other in zip(client, into, strict=True):
            within.setdefault(other, set()).update(self.within.get(one, {one}))
        self.within = within


def behind(clients: list[int], within: Within) -> set[int]:
    """Everyone whose row is in the rows that these clients bear."""
    return {other for one in clients for other in within.get(one, {one})}


def _check(name: str, rows: Tensor, n: int) -> None:
    """Refuse what is no verdict: rules may be anyone's."""
    if name not in _NAMES or not isinstance(rows, Tensor) or rows.shape != (n,):
        shape = list(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise Refusal(
            f"a rule notes '{name}' of shape {shape} for {n} rows; it may note "
            f"{', '.join(_NAMES)}, each a tensor with a value a row"
        )
    if name in ("clipped", "chosen") and rows.dtype != torch.bool:
        raise Refusal(
            f"a rule notes '{name}' as {rows.dtype}; it is a mask, torch.bool: true in "
            "the rows that it is about"
        )


def _light(weight: Tensor) -> Tensor:
    """Rows that count for less than an equal share."""
    return weight < (1 - 1e-6) / max(1, len(weight))


class Served(NamedTuple):
    """What the server made of a round's messages."""

    broadcast: Broadcast  # what the next round starts from
    messages: Messages  # what reached the aggregator
    dropped: dict[str, list[int]]  # filter → clients it removed
    verdicts: dict[str, list[int]]  # clipped, chosen, downweighted → clients
    moved: float  # ‖w⁺ − w‖
    cosine: float  # of the mean hostile to the mean benign update; nan: not known
    why: str  # w stayed for this reason; empty: it did not stay


class Received(NamedTuple):
    """What reached the server in a round; whether all are numbers is not known yet."""

    broadcast: Broadcast  # what was sent to the clients
    messages: Messages  # their replies, without running statistics; after the attack
    round: int
    hostile: Tensor | None  # [n] rows that an adversary controls; None: nobody knows
    finite: Tensor  # [1] whether all rows are numbers; [0]: the filters are to see


class Settled(NamedTuple):
    """A round that has ended but for numbers that lie on the device yet."""

    before: Broadcast
    after: Broadcast
    messages: Messages  # what reached the aggregator
    dropped: dict[str, list[int]]
    verdicts: Verdicts
    memories: dict[str, Any]  # as they were before
    why: str
    lengths: Tensor  # of the step; [0]: there is none
    angle: Tensor  # [3] what `cosine` is made of; [0]: it is not known
