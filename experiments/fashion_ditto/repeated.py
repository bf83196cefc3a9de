"""A2 with noise that repeats itself as often as the Ditto authors' does.

Their code draws noise from numpy's one stream. Whenever a client has gone through its
examples, their order is shuffled anew, and for that the stream is seeded with the
number of the client's step + 1. So two clients of one size that come to the same step,
in whatever rounds, send the same noise: it adds up where noise of its own would cancel
itself out. Here a stream has a number in the place of its numbers: what repeats itself
there repeats itself here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from troth import seeding
from troth.data.partitions.classes import classes
from troth.federation import sampling
from troth.server.attacks.random_update import random_update
from troth.types import TEST, TRAIN, Arrays, Messages

CLIENTS, ASKED, STEPS, BATCH = 500, 10, 2, 16
_LONG = 2048  # no client has more examples
_MANY = 16  # no round more clients
_APART = 1 << 40  # streams that a round began, not a shuffle


def repeated(messages: Messages, hostile: Tensor, round_: int) -> Messages:
    """`random_update`, whose draws go by the stream that the authors' would come from.

    Args:
        messages: of the round, in the order in which their code draws clients.
        hostile: which rows the adversary controls.
        round_: which.
    """
    ids, bad = messages.client.tolist(), hostile.tolist()
    sizes = [int(size) for size in messages.size]
    named = torch.tensor(streams(round_, sizes, before(round_, ids), bad))
    key = seeding.key(0, "attack", 0, device=messages.update.device)
    as_theirs = messages._replace(client=named.to(messages.client.device))
    return random_update(as_theirs, hostile, key)._replace(client=messages.client)


def streams(
    round_: int, sizes: Sequence[int], asked: Sequence[int], hostile: Sequence[bool]
) -> list[int]:
    """A number for what each client of a cohort would draw: equal where draws are.

    Args:
        round_: whose number + 4 seeds the stream.
        sizes: training examples of each client.
        asked: how often each was asked before.
        hostile: who draws noise.
    """
    stream, found = _APART + round_ * _MANY, []
    for size, times, bad in zip(sizes, asked, hostile, strict=True):
        for step in range(STEPS * times, STEPS * (times + 1)):
            if step % max(size // BATCH, 1) == 0:  # shuffled
                stream = ((step + 1) * _LONG + size) * _MANY
        found.append(stream)
        stream += bad  # whoever draws next draws on
    return found


def before(round_: int, ids: Sequence[int]) -> list[int]:
    """How often clients were asked before a round."""
    return [int(np.searchsorted(asked()[k], round_)) for k in ids]


@cache
def asked(rounds: int = 5000) -> list[list[int]]:
    """The rounds in which each client is asked."""
    found: list[list[int]] = [[] for _ in range(CLIENTS)]
    draw = sampling.named("ditto", 0, ASKED, sizes())
    for r in range(rounds):
        for k in draw(r).tolist():
            found[k].append(r)
    return found


@cache
def sizes() -> np.ndarray:
    """Training examples of every client: the recipe asks for no picture."""
    y, split = np.arange(70_000) % 10, np.repeat([TRAIN, TEST], [60_000, 10_000])
    arrays = Arrays(np.zeros((70_000, 1)), y, 10, split=split)
    lists = classes(arrays, 0, clients=CLIENTS, per_client=5, recipe="ditto")
    return np.array([int((split[own] == TRAIN).sum()) for own in lists])
