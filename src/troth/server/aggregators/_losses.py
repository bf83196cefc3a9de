"""Reported losses, made fit to compute with."""

import torch
from torch import Tensor


def numbers(loss: Tensor) -> Tensor:
    """Make losses [n] finite, in float64 on the CPU.

    An infinite loss counts as the largest (or smallest) number. NaN (a client without
    examples) counts as the mean of the losses that are numbers; without any, all are
    equal.
    """
    wide = loss.detach().cpu().double()
    known = ~wide.isnan()
    filled = wide.nan_to_num(nan=0.0)
    mean = (filled / known.sum().clamp(min=1)).sum()  # the sum alone might overflow
    return torch.where(known, filled, mean.nan_to_num())  # rounding may overflow too
