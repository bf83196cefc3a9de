"""Check that requested sizes are valid and fit into memory."""

import math

import torch

from troth import devices
from troth.types import Refusal


def at_least_1(**options: int) -> None:
    """Raise Refusal if an option is below 1."""
    for name, value in options.items():
        if value < 1:
            raise Refusal(f"data.{name} = {value} must be at least 1")


def check(what: str, shape: tuple[int, ...], itemsize: int, remedy: str) -> None:
    """Raise Refusal if an array needs more than half of the free memory.

    The limit is one half, because the clients' data are copied once.

    Args:
        what: name of the array, for the error message.
        shape: shape of the array.
        itemsize: number of bytes per entry.
        remedy: how to get a smaller array, for the error message.
    """
    size, free = math.prod(shape) * itemsize, devices.free(torch.device("cpu"))
    if size > free / 2:
        raise Refusal(
            f"{what} would take {size / 1e9:.3g} GB, more than half of the "
            f"{free / 1e9:.3g} GB of memory that is free: {remedy}"
        )
