"""What clients report as their losses, made fit to compute with."""

import torch
from torch import Tensor


def numbers(loss: Tensor) -> Tensor:
    """[n] losses in float64, all of them finite; on the CPU, as n numbers are few.

    An infinite loss counts as the largest (or smallest) number there is, its own limit.
    NaN says nothing (a client without examples has no loss), and counts as the mean of
    those that are numbers; where none is, all are equal.
    """
    wide = loss.detach().cpu().double()
    known = ~wide.isnan()
    filled = wide.nan_to_num(nan=0.0)
    mean = (filled / known.sum().clamp(min=1)).sum()  # the sum alone might overflow
    return torch.where(
        known, filled, mean.nan_to_num()
    )  # and, by rounding, so may this
