"""A user's own data, from one file of numpy arrays."""

import math

import numpy as np

from troth.data.datasets._arrays import (
    check_length,
    codes,
    divided,
    finite,
    inputs,
    read,
)
from troth.types import Arrays, Refusal


def npz(*, path: str, scale: float = 0.0) -> Arrays:
    """Your own data: arrays x, y (and owner, group, split) in one .npz file.

    The file is written by `np.savez(path, x=…, y=…)`. Other arrays in the file are
    ignored.

    - `x` [m, …]: bytes stay bytes, float64 stays float64, and other numbers become
      float32. Bytes [m, h, w] are gray images and become [m, 1, h, w]. Bytes [m, h, w,
      c] with c = 1 or 3 become [m, c, h, w], unless axis 1 already has size 1 or 3.
      Numbers of other types keep their shape. NaN is a missing value, which
      `[features]` can fill in.
    - `y` [m]: whole numbers are labels 0 … C−1 (or −1 and +1, which become 0 and 1).
      Numbers of a float type are targets of a regression, in float32 or float64. With
      `y` [m, L] of 0 and 1, an example may have several of L ≥ 2 labels.
    - `owner`, `group` [m]: whole numbers, or texts, which are numbered in sorted order.
    - `split` [m]: 0, 1, 2 or "train", "valid", "test".

    Args:
        path: Path of the file.
        scale: Value of x that is scaled to 1; 0 means 255 for bytes and 1 otherwise.
    """
    content = read(path)
    x = inputs(path, content["x"])
    check_length(path, content, len(x))
    y, classes = _targets(path, content["y"])
    if not (scale >= 0 and math.isfinite(scale)):
        raise Refusal(
            f"data.scale = {scale} must be the value of x that is scaled to 1, such as "
            "255, or 0 for automatic"
        )
    return Arrays(
        x,
        y,
        classes,
        scale=scale or (255.0 if x.dtype == np.uint8 else 1.0),
        owner=codes(path, "owner", content),
        group=codes(path, "group", content),
        split=divided(path, content),
    )


def _targets(path: str, y: np.ndarray) -> tuple[np.ndarray, int]:
    """Return y as labels with the number of classes, or as targets with 0."""
    if y.ndim == 2:
        return _several(path, y)
    if y.dtype.kind == "f":
        finite(path, "y", y)
        return y.astype(np.float64 if y.dtype.itemsize >= 8 else np.float32), 0
    if y.dtype.kind not in "biu":
        raise Refusal(
            f"{path}: y is {y.dtype}; it must be whole numbers (labels) or fractional "
            "ones (targets): relabel with np.unique(y, return_inverse=True)[1]"
        )
    labels = np.unique(y)
    if labels.tolist() == [-1, 1]:
        return (y > 0).astype(np.int64), 2
    if len(labels) < 2 or labels[0] != 0 or labels[-1] != len(labels) - 1:
        some = ", ".join(str(int(label)) for label in labels[:8])
        raise Refusal(
            f"{path}: y holds the labels {some}{' …' if len(labels) > 8 else ''}; they "
            "must be 0 to C-1 with none left out, C at least 2 (or -1 and 1): relabel "
            "with np.unique(y, return_inverse=True)[1], or store targets of a "
            "regression as float32"
        )
    return y.astype(np.int64), len(labels)


def _several(path: str, y: np.ndarray) -> tuple[np.ndarray, int]:
    """Return y as several labels per example, and the number of labels."""
    if y.dtype.kind not in "biu" or not np.isin(y, (0, 1)).all():
        raise Refusal(
            f"{path}: y has shape {y.shape} and type {y.dtype}; several values an "
            "example must be whole numbers 0 and 1, a column a label, and a regression "
            f"has one target an example, shape ({len(y)},)"
        )
    return y.astype(np.int64), y.shape[1]
