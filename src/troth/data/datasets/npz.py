"""A user's own data, from one file of numpy arrays."""

from __future__ import annotations

import math
import os
import zipfile
import zlib

import numpy as np

from troth.types import TEST, TRAIN, VALID, Arrays, Refusal

_KEYS = ("x", "y", "owner", "group", "split")
_PARTS = {"train": TRAIN, "valid": VALID, "test": TEST}
_BROKEN = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile)
_LOCKED = (NotImplementedError, RuntimeError)  # an unknown compression; a password


def npz(*, path: str, scale: float = 0.0) -> Arrays:
    """Your own data: arrays x, y (and owner, group, split) in one .npz file.

    Written by `np.savez(path, x=…, y=…)`. Other arrays in the file are left alone.

    - `x` [m, …]: bytes stay bytes, float64 stays float64, other numbers become
      float32. Bytes [m, h, w] are grey images and become [m, 1, h, w]; bytes
      [m, h, w, c] with c = 1 or 3 become [m, c, h, w], unless axis 1 is already 1 or 3.
      Numbers of other types keep their shape. NaN is a missing value, which
      `[features]` can fill in.
    - `y` [m]: whole numbers are labels 0 … C−1 (or −1 and +1, which become 0 and 1);
      fractional ones (a float type) are targets of a regression, in float32 or float64.
      `y` [m, L] of 0 and 1: an example may have several of L ≥ 2 labels.
    - `owner`, `group` [m]: whole numbers, or texts, which are numbered in sorted order.
    - `split` [m]: 0, 1, 2 or "train", "valid", "test".

    Args:
        path: the file.
        scale: the value of x that stands for 1; 0 means 255 for bytes and 1 otherwise.

    Raises:
        Refusal: the file or an array in it cannot be used; says which and why.
    """
    content = read(path)
    x = inputs(path, content["x"])
    for key, values in content.items():
        several = key == "y" and values.ndim == 2 and values.shape[1] > 1
        wanted = (len(x), *values.shape[1:2]) if several else (len(x),)
        if key != "x" and values.shape != wanted:
            raise Refusal(
                f"{path}: {key} has shape {values.shape} but x holds {len(x)} "
                f"examples; give {key} one value an example, shape ({len(x)},)"
            )
    y, classes = _targets(path, content["y"])
    if not (scale >= 0 and math.isfinite(scale)):
        raise Refusal(
            f"data.scale = {scale} must be the value of x that stands for 1, such as "
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


def read(
    path: str, option: str = "data.path", keys: tuple[str, ...] = _KEYS
) -> dict[str, np.ndarray]:
    """The arrays of these names, as they stand in the file; never a pickle."""
    place = os.path.expanduser(path)
    if not os.path.isfile(place):
        raise Refusal(
            f"there is no file '{path}' (seen from {os.getcwd()}): set {option} to an "
            ".npz file written by np.savez(path, x=…, y=…)"
        )
    try:
        with open(place, "rb") as file:
            loaded = np.load(file)
            if isinstance(loaded, np.ndarray):
                raise ValueError("it is a single array, .npy")
            with loaded:
                there = list(loaded)
                content = {key: loaded[key] for key in keys if key in there}
            if not all(isinstance(values, np.ndarray) for values in content.values()):
                raise ValueError("it is a zip of other things")
    except (*_BROKEN, *_LOCKED) as error:
        if "Object arrays" in str(error):
            raise Refusal(
                f"{path} holds Python objects, which could run code when read: save "
                "plain arrays of numbers or texts, each with a dtype of its own"
            ) from None
        # numpy takes any other file for a pickle, and tells how to trust it
        why = "it holds no arrays" if "pickle" in str(error) else error
        raise Refusal(
            f"{path} is not a whole .npz file ({why}): write it again with "
            "np.savez(path, x=…, y=…)"
        ) from None
    for key in ("x", "y"):
        if key not in content:
            raise Refusal(
                f"{path} lacks the array {key} (it holds: "
                f"{', '.join(there) or 'none'}); write it with np.savez(path, x=…, y=…)"
            )
    return content


def inputs(path: str, x: np.ndarray) -> np.ndarray:
    """`x` checked, in a type we keep, images channels first."""
    if x.dtype.kind not in "biuf":
        raise Refusal(f"{path}: x is {x.dtype}; it must be an array of real numbers")
    if x.ndim < 2 or x.size == 0:
        raise Refusal(
            f"{path}: x has shape {x.shape}; it must be [examples, features …] with at "
            "least one example (a single feature is x.reshape(-1, 1))"
        )
    if x.dtype.kind == "f" and np.isinf(x).any():
        finite(path, "x", x)
    if x.dtype != np.uint8:
        wide = x.dtype.kind == "f" and x.dtype.itemsize >= 8
        return np.ascontiguousarray(x, np.float64 if wide else np.float32)
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x)


def finite(path: str, key: str, values: np.ndarray) -> None:
    """Refuse NaN and infinity."""
    if values.dtype.kind == "f" and not (fine := np.isfinite(values)).all():
        rows = np.flatnonzero(~fine.reshape(len(values), -1).all(axis=1))
        raise Refusal(
            f"{path}: {key} is NaN or infinite in {len(rows)} of {len(values)} "
            f"examples (first in row {rows[0]}); drop these rows or fill them in"
        )


def _targets(path: str, y: np.ndarray) -> tuple[np.ndarray, int]:
    """`y` as labels and their number, or as targets and 0."""
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
    """`y` as several labels an example."""
    if y.dtype.kind not in "biu" or not np.isin(y, (0, 1)).all():
        raise Refusal(
            f"{path}: y has shape {y.shape} and type {y.dtype}; several values an "
            "example must be whole numbers 0 and 1, a column a label, and a regression "
            f"has one target an example, shape ({len(y)},)"
        )
    return y.astype(np.int64), y.shape[1]


def codes(path: str, key: str, content: dict[str, np.ndarray]) -> np.ndarray | None:
    """Owners or groups as int64; texts are numbered in sorted order."""
    if key not in content:
        return None
    values = content[key]
    if values.dtype.kind in "SU":
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    if values.dtype.kind in "biu":
        return values.astype(np.int64)
    raise Refusal(f"{path}: {key} is {values.dtype}; give whole numbers or texts")


def divided(path: str, content: dict[str, np.ndarray]) -> np.ndarray | None:
    """Which part each example belongs to, as int8."""
    if "split" not in content:
        return None
    values = content["split"]
    whole = values.dtype.kind in "iuSU"
    return marks(f"{path}: split", values.astype(str) if whole else values)


def marks(where: str, words: np.ndarray) -> np.ndarray:
    """Words for training, validation and test, or their numbers, as int8."""
    known = {**_PARTS, **{str(mark): mark for mark in _PARTS.values()}}
    strange = np.unique(words[~np.isin(words, list(known))])
    if len(strange):
        some = ", ".join(map(str, strange[:4]))
        raise Refusal(
            f"{where} holds {some}; it must be 0, 1, 2 or 'train', 'valid', 'test'"
        )
    found = np.empty(len(words), np.int8)
    for word, mark in known.items():
        found[words == word] = mark
    return found
