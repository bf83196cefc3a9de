"""Kernels for a GPU, each beside the plain code that it must agree with.

They are written in Triton, which comes with torch wherever torch knows CUDA; where it
is not there, and on a CPU, the plain code runs.
"""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor

__all__ = ["ready"]


def ready(tensor: Tensor) -> bool:
    """Whether the kernels run where this tensor lies, lifted or not."""
    return tensor.is_cuda and _here()


@functools.cache
def _here() -> bool:
    if torch.version.hip is not None or importlib.util.find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability() >= (8, 0)  # the first with TF32
