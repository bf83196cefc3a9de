"""Functions for aggregators that choose updates: order, distances, Krum's scores."""

from typing import Literal

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Note
from troth.types import Messages

Ties = Literal["id", "first"]
"""Which of several updates with equal scores is chosen: "id" means that of the lowest
client id, "first" the first row of the messages (in a simulation, the client that was
sampled first)."""

Neighbors = Literal["blanchard", "byzfl"]
"""Number of nearest updates in Krum's score: "blanchard" means n − f − 2 (Krum's paper,
and the code of Ditto's authors), "byzfl" n − f − 1 (the package byzfl)."""

_FEWER = {"blanchard": 2, "byzfl": 1}


def ordered(messages: Messages, ties: Ties = "id") -> Tensor:
    """Return the indices [n] of updates in the order in which ties are broken."""
    if ties == "first":
        return torch.arange(len(messages.client), device=messages.client.device)
    return messages.client.argsort(stable=True)


def distances(messages: Messages, order: Tensor) -> Tensor:
    """Return squared distances [n, n] of updates, sorted by `order`, on the CPU."""
    between = numerics.square_distances(messages.update)
    return between[order][:, order].cpu().double()


def taken(messages: Messages, order: Tensor, places: Tensor, note: Note) -> Tensor:
    """Average the updates order[places], and record them as chosen."""
    return numerics.average(messages.update[chosen(messages, order, places, note)])


def chosen(messages: Messages, order: Tensor, places: Tensor, note: Note) -> Tensor:
    """Return the sorted indices order[places], and record the updates as chosen."""
    rows = order[places.sort().values.to(order.device)]
    mask = torch.zeros_like(messages.client, dtype=torch.bool)
    mask[rows] = True
    note(chosen=mask)
    return rows


def krum(
    messages: Messages, note: Note, f: int, m: int, neighbors: Neighbors, ties: Ties
) -> Tensor:
    """Average the m updates with the lowest Krum scores."""
    order = ordered(messages, ties)
    near, _ = nearest(distances(messages, order))
    rated = scores(near, len(near) - f - _FEWER[neighbors])
    return taken(messages, order, rated.sort(stable=True).indices[:m], note)


def nearest(between: Tensor) -> tuple[Tensor, Tensor]:
    """Sort each update's distances to all updates; its distance to itself is last.

    Return the sorted distances [n, n], and for each distance the index of the other
    update [n, n].
    """
    apart = between.clone().fill_diagonal_(torch.inf)
    return torch.sort(apart, dim=1, stable=True)


def scores(near: Tensor, others: int) -> Tensor:
    """Return each update's sum of `others` smallest distances; 0 if `others` ≤ 0."""
    count = max(0, min(others, near.shape[1] - 1))
    return numerics.level(near[:, :count].sum(dim=1))
