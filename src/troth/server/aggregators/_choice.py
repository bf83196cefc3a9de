"""Shared by rules that choose rows: the order of ties, distances, Krum's scores."""

from typing import Literal

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Note
from troth.types import Messages

Ties = Literal["id", "first"]
"""Which of equal rows is taken: that of the lowest client id, or the one that comes
first, which in a simulation is the one that was drawn first."""

Neighbors = Literal["blanchard", "byzfl"]
"""How many of the nearest others a score adds up: n − f − 2 (the paper, and the Ditto
authors' code) or n − f − 1 (the package byzfl)."""

_FEWER = {"blanchard": 2, "byzfl": 1}


def ordered(messages: Messages, ties: Ties = "id") -> Tensor:
    """Return [n] rows in the order that breaks ties: by client id, or as they come."""
    if ties == "first":
        return torch.arange(len(messages.client), device=messages.client.device)
    return messages.client.argsort(stable=True)


def distances(messages: Messages, order: Tensor) -> Tensor:
    """Return [n, n] squared distances between rows in this order, on the CPU."""
    between = numerics.square_distances(messages.update)
    return between[order][:, order].cpu().double()


def taken(messages: Messages, order: Tensor, places: Tensor, note: Note) -> Tensor:
    """Average the rows at these places of an order, and note that they were chosen."""
    return numerics.average(messages.update[chosen(messages, order, places, note)])


def chosen(messages: Messages, order: Tensor, places: Tensor, note: Note) -> Tensor:
    """Return the rows at these places of an order, and note that they were chosen."""
    rows = order[places.sort().values.to(order.device)]
    mask = torch.zeros_like(messages.client, dtype=torch.bool)
    mask[rows] = True
    note(chosen=mask)
    return rows


def krum(
    messages: Messages, note: Note, f: int, m: int, neighbors: Neighbors, ties: Ties
) -> Tensor:
    """Average the m rows with Krum's lowest scores; break ties by `ties`."""
    order = ordered(messages, ties)
    near, _ = nearest(distances(messages, order))
    rated = scores(near, len(near) - f - _FEWER[neighbors])
    return taken(messages, order, rated.sort(stable=True).indices[:m], note)


def nearest(between: Tensor) -> tuple[Tensor, Tensor]:
    """Sort each row's distances to all rows, itself last, and to whom: [n, n]."""
    apart = between.clone().fill_diagonal_(torch.inf)
    return torch.sort(apart, dim=1, stable=True)


def scores(near: Tensor, others: int) -> Tensor:
    """Sum each row's distances to its nearest others [n]; 0 if none of them counts."""
    count = max(0, min(others, near.shape[1] - 1))
    return numerics.level(near[:, :count].sum(dim=1))
