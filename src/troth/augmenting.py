"""A list of augments as one change of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from troth import lookup, seeding
from troth.beside import as_it_is
from troth.parts import Part
from troth.types import Augment, Batch


def compose(parts: Sequence[Part], scale: float) -> Augment:
    """Augments one after another; each draws once for every example and step.

    Draws are keyed by (seed, round, client, step, place in the list, example), so they
    are the same however clients step.

    Args:
        parts: names and options, in order; none leaves batches alone.
        scale: the value of x that stands for 1.
    """
    if not parts:
        return as_it_is
    members = [(lookup.find("augment", p.name), p.options) for p in parts]

    def augment(batch: Batch) -> Batch:
        x, step = batch.x, seeding.fold(batch.key, batch.t)
        each = torch.arange(x.shape[0], device=x.device)
        for i, (member, options) in enumerate(members):
            key = seeding.fold(seeding.fold(step, 2 * i), each)
            x = lookup.call(member, options, x=x, key=key, scale=scale)
        return batch._replace(x=x)

    return augment
