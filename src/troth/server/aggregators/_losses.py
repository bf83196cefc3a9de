"""Conversion of the losses that clients send to finite numbers."""

import torch
from torch import Tensor


def numbers(loss: Tensor) -> Tensor:
    """Return the losses [n] as finite numbers, in float64 on the CPU.

    An infinite loss becomes the largest (or smallest) float64 number. NaN (from a
    client without examples) becomes the mean of the other losses. If all losses are
    NaN, all become 0.
    """
    wide = loss.detach().cpu().double()
    known = ~wide.isnan()
    filled = wide.nan_to_num(nan=0.0)
    mean = (filled / known.sum().clamp(min=1)).sum()  # the sum alone might overflow
    return torch.where(known, filled, mean.nan_to_num())  # rounding may overflow too
