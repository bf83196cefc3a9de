"""Whether the sizes asked for make data, and fit into memory."""

import math

import torch

from troth import devices
from troth.types import Refusal


def at_least_1(**options: int) -> None:
    """Refuse counts below one, by their names."""
    for name, value in options.items():
        if value < 1:
            raise Refusal(f"data.{name} = {value} must be at least 1")


def check(what: str, shape: tuple[int, ...], itemsize: int, remedy: str) -> None:
    """Refuse an array that would take more than half of the memory now free.

    Half, for what is dealt to clients is copied once more. The refusal says both sizes,
    and a `remedy` to have less.
    """
    size, free = math.prod(shape) * itemsize, devices.free(torch.device("cpu"))
    if size > free / 2:
        raise Refusal(
            f"{what} would take {size / 1e9:.3g} GB, more than half of the "
            f"{free / 1e9:.3g} GB of memory that is free: {remedy}"
        )
