"""Kernels for a GPU, each beside the plain code that it must agree with.

They are written in Triton, which comes with torch where torch supports CUDA. Without
it, and on a CPU, the plain code runs.
"""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor

from troth.networks.kernels import precision

__all__ = ["NARROW", "input_precision", "ready", "tile"]

NARROW = (torch.float32, torch.bfloat16, torch.float16)
"""What kernels compute with."""


def ready(tensor: Tensor) -> bool:
    """Return whether kernels run on this tensor's device; it may be lifted."""
    return tensor.is_cuda and _run_on(tensor.device.index)


@functools.cache
def _run_on(index: int | None) -> bool:
    """Return whether kernels can be built and launched here, by a trial.

    Triton may be installed without the C compiler that it needs.
    """
    if torch.version.hip is not None or importlib.util.find_spec("triton") is None:
        return False
    device = torch.device("cuda", index or 0)
    if torch.cuda.get_device_capability(device) < (8, 0):  # the first with TF32
        return False
    try:
        from troth.networks.kernels import normal

        with torch.cuda.device(device):
            normal.normal(torch.zeros(1, dtype=torch.long, device=device), 2)
    except Exception:
        return False
    return True


def input_precision() -> str:
    """Return Triton's precision of products; three of TF32 make one of float32."""
    return "tf32" if precision.few() else "tf32x3"


def tile(size: int, most: int) -> int:
    """Return the side of a tile: a power of two, at least a tensor core's 16."""
    return max(16, min(most, 1 << max(0, size - 1).bit_length()))
