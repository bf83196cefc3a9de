"""Switch TF32 matrix products on a GPU on or off.

By default, torch uses TF32 for convolutions on CUDA. TF32 has a precision of three
decimal digits only, so results would depend on how many clients are trained together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_LOCK = threading.Lock()
_inside: list[Any] = []  # previous setting, once per open block


@contextmanager
def products(precision: str, device: torch.device) -> Iterator[None]:
    """Within the block, compute products in TF32 for "tf32", else in full float32.

    The setting holds for the whole process. If several threads are in such blocks, the
    last one restores the setting from before the first block. On devices other than
    CUDA, nothing is done.
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
    """Return whether products may currently be computed in TF32."""
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return bool(_newer()[1].fp32_precision == "tf32")


def _allowed() -> tuple[bool, Any]:
    """Return whether torch's newer interface was used, and the current setting.

    After a use of the newer interface, reading the older one raises an error.
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
