"""Whether arrays fit into memory, asked before they are made."""

from __future__ import annotations

import math

import torch

from troth import devices
from troth.types import Refusal


def check(what: str, shape: tuple[int, ...], itemsize: int, remedy: str) -> None:
    """Refuse an array that would take more than half of the memory now free.

    Half, for what is dealt to clients is copied once more.

    Args:
        what: the examples, for the refusal.
        shape: of the array.
        itemsize: bytes a value.
        remedy: how to have less.

    Raises:
        Refusal: it would; says both sizes.
    """
    size, free = math.prod(shape) * itemsize, devices.free(torch.device("cpu"))
    if size > free / 2:
        raise Refusal(
            f"{what} would take {size / 1e9:.3g} GB, more than half of the "
            f"{free / 1e9:.3g} GB of memory that is free: {remedy}"
        )
