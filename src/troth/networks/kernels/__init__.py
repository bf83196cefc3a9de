"""Kernels for a GPU, each tested against plain code with the same result.

The kernels are written in Triton, which is installed with torch for CUDA. On a CPU, or
without Triton, the plain code is used.
"""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor

from troth.networks.kernels import precision

__all__ = ["NARROW", "input_precision", "ready", "tile"]

NARROW = (torch.float32, torch.bfloat16, torch.float16)
"""Dtypes for which there are kernels."""


def ready(tensor: Tensor) -> bool:
    """Return whether kernels work on this tensor's device.

    The tensor may be inside vmap.
    """
    return tensor.is_cuda and _run_on(tensor.device.index)


@functools.cache
def _run_on(index: int | None) -> bool:
    """Return whether kernels work on a CUDA device, by trying one.

    Triton may be installed without the C compiler that it needs.
    """
    if torch.version.hip is not None or importlib.util.find_spec("triton") is None:
        return False
    device = torch.device("cuda", index or 0)
    if torch.cuda.get_device_capability(device) < (8, 0):  # TF32 begins with 8.0
        return False
    try:
        from troth.networks.kernels import normal

        with torch.cuda.device(device):
            normal.normal(torch.zeros(1, dtype=torch.long, device=device), 2)
    except Exception:
        return False
    return True


def input_precision() -> str:
    """Return Triton's name for the precision of matrix products.

    If products must not be in TF32, three TF32 products replace one in float32.
    """
    return "tf32" if precision.few() else "tf32x3"


def tile(size: int, most: int) -> int:
    """Return the side of a tile for `size`: a power of two from 16 to `most`."""
    return max(16, min(most, 1 << max(0, size - 1).bit_length()))
