"""Shared by aggregators that choose updates: tie-breaking, distances, Krum's scores."""

from typing import Literal

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Note
from troth.types import Messages

Ties = Literal["id", "first"]
"""Which of two updates with equal scores comes first: "id" takes the lower client id,
"first" the earlier row of the messages (in a simulation, the client
sampled earlier)."""

Neighbors = Literal["blanchard", "byzfl"]
"""How many nearest updates a score sums over: "blanchard" takes n − f − 2 (the paper
and the Ditto authors' code), "byzfl" takes n − f − 1 (the package byzfl)."""

_FEWER = {"blanchard": 2, "byzfl": 1}


def ordered(messages: Messages, ties: Ties = "id") -> Tensor:
    """Return the indices [n] of the updates, sorted; the first one wins a tie."""
    if ties == "first":
        return torch.arange(len(messages.client), device=messages.client.device)
    return messages.client.argsort(stable=True)


def distances(messages: Messages, order: Tensor) -> Tensor:
    """Return squared distances [n, n] between the ordered updates, on the CPU."""
    between = numerics.square_distances(messages.update)
    return between[order][:, order].cpu().double()


def taken(messages: Messages, order: Tensor, places: Tensor, note: Note) -> Tensor:
    """Average the updates at some positions of `order`, and record them as chosen."""
    return numerics.average(messages.update[chosen(messages, order, places, note)])


def chosen(messages: Messages, order: Tensor, places: Tensor, note: Note) -> Tensor:
    """Return the indices of updates at some positions, and record them as chosen."""
    rows = order[places.sort().values.to(order.device)]
    mask = torch.zeros_like(messages.client, dtype=torch.bool)
    mask[rows] = True
    note(chosen=mask)
    return rows


def krum(
    messages: Messages, note: Note, f: int, m: int, neighbors: Neighbors, ties: Ties
) -> Tensor:
    """Average the m updates with Krum's lowest scores; break ties by `ties`."""
    order = ordered(messages, ties)
    near, _ = nearest(distances(messages, order))
    rated = scores(near, len(near) - f - _FEWER[neighbors])
    return taken(messages, order, rated.sort(stable=True).indices[:m], note)


def nearest(between: Tensor) -> tuple[Tensor, Tensor]:
    """Sort each update's distances to all updates, with its distance to itself last.

    Returns the sorted distances [n, n], and for each distance the index of the other
    update [n, n].
    """
    apart = between.clone().fill_diagonal_(torch.inf)
    return torch.sort(apart, dim=1, stable=True)


def scores(near: Tensor, others: int) -> Tensor:
    """Sum each update's k smallest distances, where k is `others`; 0 if k ≤ 0."""
    count = max(0, min(others, near.shape[1] - 1))
    return numerics.level(near[:, :count].sum(dim=1))
