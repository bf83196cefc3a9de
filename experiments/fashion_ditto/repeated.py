"""Attack A2 with noise that is repeated as often as in the Ditto authors' code.

The authors' code draws noise from numpy's global generator. Whenever a client has used
all of its examples, their order is shuffled again, and for that the generator is seeded
with the number of the client's step + 1. Two clients of equal size therefore send the
same noise when they reach the same step, in whatever rounds. This noise adds up, where
independent noise would cancel. Here, each state of that generator is represented by a
number, so that noise is repeated exactly where it is repeated there.
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
    """Return `random_update` with noise that is repeated as in the authors' code.

    Args:
        messages: the messages of the round, in the order of the authors' code.
        hostile: the rows that the adversary controls.
        round_: the round.
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
    """Return a number for the draw of each client; numbers are equal if draws are.

    Args:
        round_: the round; its number + 4 seeds the generator.
        sizes: training examples of each client.
        asked: number of earlier rounds of each client.
        hostile: clients that draw noise.
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
    """Return in how many rounds each client took part before a round."""
    return [int(np.searchsorted(asked()[k], round_)) for k in ids]


@cache
def asked(rounds: int = 5000) -> list[list[int]]:
    """Return the rounds in which each client takes part."""
    found: list[list[int]] = [[] for _ in range(CLIENTS)]
    draw = sampling.named("ditto", 0, ASKED, sizes())
    for r in range(rounds):
        for k in draw(r).tolist():
            found[k].append(r)
    return found


@cache
def sizes() -> np.ndarray:
    """Return the training examples of every client, without reading any picture."""
    y, split = np.arange(70_000) % 10, np.repeat([TRAIN, TEST], [60_000, 10_000])
    arrays = Arrays(np.zeros((70_000, 1)), y, 10, split=split)
    lists = classes(arrays, 0, clients=CLIENTS, per_client=5, recipe="ditto")
    return np.array([int((split[own] == TRAIN).sum()) for own in lists])
