"""Helper functions for corruptions."""

import torch
from torch import Tensor

from troth.types import Refusal


def check_classes(name: str, classes: int) -> None:
    """Raise Refusal if a data set has no classes."""
    if classes == 0:
        raise Refusal(
            f"{name} needs classes, and this data set is a regression; set "
            "corruption.name to another one, such as 'flip_labels', or to 'none'"
        )


def like(values: Tensor, x: Tensor) -> Tensor:
    """Cast values to the dtype of x; bytes are rounded and clipped to 0 … 255."""
    if x.dtype == torch.uint8 and values.is_floating_point():
        values = values.round().clamp(0, 255)
    return values.to(x.dtype)
