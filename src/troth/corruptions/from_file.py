"""Poisoned examples made elsewhere, from a file."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from troth import seeding
from troth.datasets.npz import finite, inputs, read
from troth.types import Refusal


def from_file(
    x: Tensor,
    y: Tensor,
    classes: int,
    key: Tensor,
    *,
    path: str,
    take: Literal["fill", "all"] = "fill",
) -> tuple[Tensor, Tensor]:
    """Examples of a file take the place of a client's own.

    The file is written by `np.savez(path, x=…, y=…)`, as the data set has its examples:
    x [m, …] of the shape of its inputs (grey images may be [m, height, width] bytes),
    bytes where it has bytes, in its units; y of its labels 0 … C−1 (not all need
    occur), rows of 0 and 1, or targets. All hostile clients read the same file.
    Threat model: that of whoever made the file; the client controls its own training
    data and nothing else.

    Args:
        x: [k, …] the examples to replace.
        y: [k, …] their labels.
        classes: C; 0 is regression.
        key: draws which examples of the file.
        path: the file.
        take: fill = as many as are replaced, drawn without replacement, and from the
            first of them again where the file has fewer; all = all of the file, so
            that the client's number of examples changes.

    Raises:
        Refusal: the file or an array in it cannot be used; says which and why.
    """
    several = y.dim() == 2
    found = _read(path, _written(path), tuple(x.shape[1:]), x.dtype, classes, several)
    if take == "fill":
        m = np.array([len(found[1])])
        rows = seeding.permute(key.reshape(1).numpy(), np.arange(len(y)) % m, m)
        found = found[0][rows], found[1][rows]
    new, labels = (torch.tensor(values) for values in found)
    return new.to(x.dtype), labels.to(y.dtype)


def _written(path: str) -> tuple[int, ...]:
    """When a file was written and how long it is: it may change between two runs."""
    try:
        found = os.stat(os.path.expanduser(path))
    except (OSError, ValueError):
        return ()  # reading it says what is wrong
    return found.st_mtime_ns, found.st_size, found.st_ino


@lru_cache(maxsize=1)
def _read(
    path: str,
    written: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    classes: int,
    several: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """The file, checked; once for all hostile clients."""
    content = read(path, "corruption.path")
    x, y = inputs(path, content["x"]), content["y"]
    if x.dtype == np.uint8 and content["x"].shape[1:] == shape:
        x = content["x"]  # as the data set has it, images or not
    finite(path, "x", x)
    if x.shape[1:] != shape:
        raise Refusal(
            f"{path}: an example of x has shape {list(x.shape[1:])}, and one of the "
            f"data set {list(shape)}; they must be the same"
        )
    if (x.dtype == np.uint8) != (dtype == torch.uint8):
        raise Refusal(
            f"{path}: x is {x.dtype}, and the inputs of the data set are "
            f"{str(dtype)[6:]}; bytes go with bytes and numbers with numbers, in the "
            "units of the data set"
        )
    wanted = (len(x), classes) if several else (len(x),)
    if y.shape != wanted or (classes > 0 and y.dtype.kind not in "biu"):
        kind = "numbers" if classes == 0 else "whole numbers"
        raise Refusal(
            f"{path}: y is {y.dtype} of shape {list(y.shape)}; it must be {kind} of "
            f"shape {list(wanted)}"
        )
    if classes == 0 and y.dtype.kind not in "biuf":
        raise Refusal(f"{path}: y is {y.dtype}; it must be an array of real numbers")
    finite(path, "y", y)
    most = 1 if several else classes - 1
    if classes and (y.min() < 0 or y.max() > most):
        raise Refusal(
            f"{path}: y holds labels from {y.min()} to {y.max()}; they must lie in "
            f"0 … {most}, as those of the data set do"
        )
    return x, y
