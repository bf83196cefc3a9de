"""A list of augments as one change of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from troth import lookup, seeding
from troth.client.combine import as_it_is
from troth.config.parts import Part
from troth.types import Augment, Batch, Refusal


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
            new = lookup.call(member, options, x=x, key=key, scale=scale)
            if not isinstance(new, torch.Tensor) or new.shape != x.shape:
                raise Refusal(
                    f"augment '{parts[i].name}' makes {_shape(new)} of a batch of "
                    f"shape {list(x.shape)}; it must give a tensor of the same shape"
                )
            x = new
        return batch._replace(x=x)

    return augment


def tried(augment: Augment, batch: Batch) -> Batch:
    """What an augment makes of a batch.

    Raises:
        Refusal: it makes something else of it the second time.
    """
    found, again = augment(batch), augment(batch)
    if not torch.allclose(found.x, again.x, rtol=0, atol=0, equal_nan=True):
        raise Refusal(
            "an augment gives other results for the same key: it must draw all it "
            "needs from `key` by troth.seeding, or no run can be had again"
        )
    return found


def _shape(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"a {type(value).__name__}"
