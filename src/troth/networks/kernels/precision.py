"""Switch TF32 matrix products on a GPU on or off.

Left alone, torch takes TF32 for convolutions on CUDA: three digits, so that what
clients become would depend on how many step together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_LOCK = threading.Lock()
_inside: list[Any] = []  # what was allowed before, once for each that is inside


@contextmanager
def products(precision: str, device: torch.device) -> Iterator[None]:
    """Inside, products keep the digits of float32, unless the precision is `tf32`.

    Of the whole process: the last of several threads puts back what was there before
    the first. On other devices than CUDA nothing is done.
    """
    if device.type != "cuda":
        yield
        return
    with _LOCK:
        _inside.append(_inside[0] if _inside else _allowed())
        _allow(precision == "tf32")
    try:
        yield
    finally:
        with _LOCK:
            before = _inside.pop()
            if not _inside:
                _set(before)


def few() -> bool:
    """Whether products may have TF32's three digits now."""
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return bool(_newer()[1].fp32_precision == "tf32")


def _allowed() -> tuple[bool, Any]:
    """What is allowed, and whether that is said in torch's newer way.

    Where someone has used that, the older refuses to be read.
    """
    try:
        older = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return True, [part.fp32_precision for part in _newer()]
    return False, older


def _allow(tf32: bool) -> None:
    if _inside[0][0]:
        _set((True, ["tf32" if tf32 else "ieee"] * 2))
    else:
        _set((False, ("high" if tf32 else "highest", tf32)))


def _set(wanted: tuple[bool, Any]) -> None:
    """Allow what `_allowed` described."""
    newer, values = wanted
    if newer:
        for part, value in zip(_newer(), values, strict=True):
            part.fp32_precision = value
    else:
        torch.set_float32_matmul_precision(values[0])
        torch.backends.cudnn.allow_tf32 = values[1]


def _newer() -> tuple[Any, Any]:
    backends: Any = torch.backends
    return backends.cuda.matmul, backends.cudnn.conv
