"""A model between a client's own and the shared one: apfl, mapper."""

import torch
from torch import Tensor


def mixed(
    v: Tensor, w: Tensor, weight: Tensor | float, tail: int, inside: bool = False
) -> Tensor:
    """Return weight·v + (1 − weight)·w; exactly w at 0 and v at 1, whatever the other.

    What layers see between two models is not between what they see in either, so that
    running statistics, the tail, are not mixed: v keeps those of the mixed model. A
    weight that is a number, or `inside` of 0 and 1 for all clients, costs less.
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
    """Return the gradient in one of the two models, by the chain rule: share·g.

    `part` is the one that is to move, `at` the mixed model, of which it is that share.
    A step takes running statistics to those of the mixed model.
    """
    if tail == 0:
        return share * g
    statistics = (part - at)[-tail:] + g[-tail:]
    return torch.cat([share * g[:-tail], statistics])
