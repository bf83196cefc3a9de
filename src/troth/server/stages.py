"""What a server knows of a round, from what it receives to what it made of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from troth.server.verdicts import Verdicts
from troth.types import Broadcast, Messages


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
