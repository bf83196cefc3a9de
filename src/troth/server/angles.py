"""How long steps are, and at what angle hostile updates stand to benign ones.

In two halves: what is computed where the updates lie, and what is made of it once it
is read, so that several rounds can be read at once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from troth import numerics
from troth.types import Broadcast, Messages


def length(vector: Tensor) -> Tensor:
    """‖vector‖, finite exactly where all of it is (hence in double precision)."""
    return numerics.norms(vector[None])[0]


def lengths(before: Broadcast, after: Broadcast, tail: int) -> Tensor:
    """‖w⁺ − w‖ without running statistics; then of these, and of what is beside."""
    parts = (*(after.w - before.w).tensor_split([len(before.w) - tail]), after.extra)
    some = (parts[0], *filter(len, parts[1:]))
    return torch.stack([length(part) for part in some])


def between(messages: Messages, hostile: Tensor, all_finite: bool) -> Tensor:
    """Of the mean hostile and the mean benign update: [3] product and lengths.

    Of rows that are numbers; nan where there are none of either kind.

    Args:
        messages: of the round.
        hostile: [n] which rows an adversary controls.
        all_finite: all rows are known to be numbers; else a device is waited for.
    """
    rows = messages.update
    finite = None if all_finite else numerics.finite(rows)
    if finite is not None and not bool(finite.all()):
        rows, hostile = rows[finite], hostile[finite]
    weight = torch.stack([hostile, ~hostile]).to(rows)
    a, b = (weight / weight.sum(dim=1, keepdim=True)) @ rows
    inner = a.to(numerics.widest(a)) @ b.to(numerics.widest(b))
    return torch.stack([inner, length(a), length(b)])


def cosine(angle: list[float]) -> float:
    """Of what `between` gave; nan where it gave nothing."""
    product, *lengths = angle or [math.nan]
    both = math.prod(lengths)
    return float(product / both) if both else math.nan
