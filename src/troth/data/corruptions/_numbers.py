"""What corruptions of inputs share."""

from __future__ import annotations

import torch
from torch import Tensor


def like(values: Tensor, x: Tensor) -> Tensor:
    """Values in the type of x: bytes are rounded and stay within 0 … 255."""
    if x.dtype == torch.uint8 and values.is_floating_point():
        values = values.round().clamp(0, 255)
    return values.to(x.dtype)
