"""A model between a client's own and the shared one: apfl, mapper."""

from __future__ import annotations

import torch
from torch import Tensor


def mixed(
    v: Tensor, w: Tensor, weight: Tensor | float, tail: int, inside: bool = False
) -> Tensor:
    """weight·v + (1 − weight)·w; at 0 exactly w and at 1 exactly v, whatever the other.

    Args:
        v: [d] the client's own.
        w: [d] the shared one.
        weight: [] of v, from 0 to 1; a number is known beforehand and costs less.
        tail: so many numbers at the end are running statistics. What layers see between
            two models is not between what they see in either, so these are not mixed:
            v keeps those of the mixed model.
        inside: no client's weight is 0 or 1, which saves looking at both ends.
    """
    if isinstance(weight, float) and weight in (0, 1):
        return v if weight else w
    between = torch.lerp(w, v, weight)
    if tail:
        between = torch.cat([between[:-tail], v[-tail:]])
    if inside or isinstance(weight, float):
        return between
    return torch.where(weight <= 0, w, torch.where(weight >= 1, v, between))


def through(g: Tensor, at: Tensor, part: Tensor, share: Tensor, tail: int) -> Tensor:
    """The gradient in one of the two models, by the chain rule: share·g.

    Args:
        g: [d] the gradient at the mixed model.
        at: [d] the mixed model.
        part: [d] the one of the two that is to move.
        share: [] how much of it the mixed model has.
        tail: so many running statistics, which a step takes to the mixed model's.
    """
    if tail == 0:
        return share * g
    statistics = (part - at)[-tail:] + g[-tail:]
    return torch.cat([share * g[:-tail], statistics])
