"""Switch TF32 matrix products on a GPU on or off.

By default, torch uses TF32 for convolutions on CUDA. TF32 has three digits, so results
would depend on how many clients are computed together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_LOCK = threading.Lock()
_inside: list[Any] = []  # the setting from before, once per block that is open


@contextmanager
def products(precision: str, device: torch.device) -> Iterator[None]:
    """Compute products in full float32 within the block, or in TF32 for "tf32".

    The setting holds for the whole process. If several threads are inside such blocks,
    the last one to leave restores the setting from before the first. On devices other
    than CUDA nothing is done.
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
    """Return whether products may currently be computed in TF32, with three digits."""
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return bool(_newer()[1].fp32_precision == "tf32")


def _allowed() -> tuple[bool, Any]:
    """Return whether torch's newer interface is in use, and the current setting.

    Once anybody has used the newer interface, the older one cannot be read.
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
    """Restore a setting that `_allowed` returned."""
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
