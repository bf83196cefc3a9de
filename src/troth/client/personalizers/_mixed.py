"""Mixtures of a client's personal model and the shared model, for apfl and mapper."""

import torch
from torch import Tensor


def mixed(
    v: Tensor, w: Tensor, weight: Tensor | float, tail: int, inside: bool = False
) -> Tensor:
    """Return weight·v + (1 − weight)·w.

    The result is exactly w at weight 0 and exactly v at weight 1, even if the other
    model is not finite. The last `tail` numbers are running statistics of batch
    normalization. They are taken from v, which holds the statistics of the mixed model.
    (A mean of two models' statistics would not describe the layers' inputs in the mixed
    model.)

    Args:
        v: Personal model, [d].
        w: Shared model, [d].
        weight: Weight of v in the mixture, from 0 to 1. A float costs less than a
            tensor.
        tail: Number of running statistics.
        inside: Whether the weight of every client is strictly between 0 and 1. Then the
            exact cases 0 and 1 need no code, which costs less.
    """
    if isinstance(weight, float) and weight in (0, 1):
        return v if weight else w
    between = torch.lerp(w, v, weight)
    if tail:
        between = torch.cat([between[:-tail], v[-tail:]])
    if inside or isinstance(weight, float):
        return between
    return torch.where(weight <= 0, w, torch.where(weight >= 1, v, between))


def through(
    g: Tensor, at: Tensor, part: Tensor, share: Tensor | float, tail: int
) -> Tensor:
    """Return the gradient with respect to one of the two mixed models: share·g.

    A step along the result replaces the running statistics of `part` by the new ones of
    the mixed model.

    Args:
        g: Gradient at the mixed model.
        at: Mixed model.
        part: Model to update, v or w.
        share: Weight of `part` in the mixture.
        tail: Number of running statistics.
    """
    if tail == 0:
        return share * g
    statistics = (part - at)[-tail:] + g[-tail:]
    return torch.cat([share * g[:-tail], statistics])
