"""What the rules that choose rows share."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from troth import numerics
from troth.server.verdicts import Note
from troth.types import Messages

Ties = Literal["id", "first"]
"""Which of equal rows is taken: that of the lowest client id, or the one that comes
first, which in a simulation is the one that was drawn first."""


def ordered(messages: Messages, ties: Ties = "id") -> Tensor:
    """[n] the rows in the order in which ties go: by client id, or as they come."""
    if ties == "first":
        return torch.arange(len(messages.client), device=messages.client.device)
    return messages.client.argsort(stable=True)


def distances(messages: Messages, order: Tensor) -> Tensor:
    """[n, n] squared distances between rows in this order, in the CPU's memory.

    Choosing among n rows is many small steps, which a GPU would only delay.
    """
    between = numerics.square_distances(messages.update)
    return between[order][:, order].cpu().double()


def taken(messages: Messages, order: Tensor, places: Tensor, note: Note) -> Tensor:
    """The mean of the rows at these places of an order; says that they were chosen.

    They are added up in that order, so that it does not matter in which they came.
    """
    rows = order[places.sort().values.to(order.device)]
    chosen(messages, rows, note)
    return numerics.average(messages.update[rows])


def chosen(messages: Messages, rows: Tensor, note: Note) -> None:
    """Say that these rows were chosen."""
    mask = torch.zeros_like(messages.client, dtype=torch.bool)
    mask[rows] = True
    note(chosen=mask)
