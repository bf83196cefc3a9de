"""Poisoned examples on disk, for any other experiment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from troth.data import labels
from troth.poison._given import Examples, at_least_zero
from troth.types import Refusal


class Summary(NamedTuple):
    """What a defender would notice of poisoned examples."""

    number: int
    share: float  # of all examples, these included
    largest_norm: float  # of an input


def summary(x: np.ndarray, others: int) -> Summary:
    """Number, share and largest norm of poisoned inputs.

    Args:
        x: [m, …] inputs.
        others: how many examples the honest users have together.

    Departs: the paper's 3.3 % are 2,000 of the honest 60,000; here it is the share of
    all 62,000, 3.2 %.
    """
    if others < 0:
        raise Refusal(f"others = {others} is a number of examples; give 0 or more")
    norms = np.linalg.norm(x.reshape(len(x), -1).astype(np.float64), axis=1)
    return Summary(len(x), len(x) / (len(x) + others), float(norms.max(initial=0.0)))


def save(
    path: str | Path,
    x: np.ndarray,
    y: np.ndarray | None = None,
    p: np.ndarray | None = None,
    *,
    others: int = 0,
    scale: float = 0.0,
) -> Summary:
    """Write an .npz file of poisoned examples, for `corruptions/from_file`.

    It holds x, y, with soft labels p too, scale, and number, share and largest_norm.
    The file appears under its name only when it is whole.

    Args:
        path: where; as it is, with .npz or without. A file there is replaced.
        x: [m, …] of the shape of the data set's own examples.
        y: [m] labels or answers; not needed where p is given, whose largest it is.
        p: [m, classes] soft labels.
        others: how many examples the honest users have together.
        scale: the value of x that stands for 1; 0 means 255 for bytes and 1 otherwise.
    """
    at_least_zero("scale", scale)
    x, y, p = _checked(np.asarray(x), y, p)
    found = summary(x, others)
    unit = scale or (255.0 if x.dtype == np.uint8 else 1.0)
    soft: dict[str, Any] = {} if p is None else {"p": p}
    place = Path(path).expanduser()
    if not place.name:
        raise Refusal(f"'{path}' names no file; give a path such as poison.npz")
    half = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with open(half, "wb") as file:
            np.savez(file, x=x, y=y, scale=unit, **soft, **found._asdict())
        os.replace(half, place)
    except OSError as error:
        raise Refusal(
            f"{path} cannot be written ({error.strerror}); give a path in a folder "
            "that exists and has room"
        ) from None
    finally:
        half.unlink(missing_ok=True)
    return found


def _checked(x: np.ndarray, y: np.ndarray | None, p: np.ndarray | None) -> Examples:
    if p is not None:
        p = np.asarray(p, np.float64)
        why = labels.wrong(torch.from_numpy(p)) if p.ndim == 2 else "has not two axes"
        if why:
            raise Refusal(
                f"p, of shape {list(p.shape)}, {why}; give a row of probabilities an "
                "example, at least 0 and 1 together"
            )
        y = p.argmax(axis=1) if y is None else np.asarray(y)
        if len(y) == len(p) and not np.array_equal(y, p.argmax(axis=1)):
            raise Refusal(
                f"{int((y != p.argmax(axis=1)).sum())} labels are not the most likely "
                "of their soft labels; leave y out, it follows from p"
            )
    if y is None:
        raise Refusal("there are neither labels y nor soft labels p; give one of them")
    y = np.asarray(y)
    counts = [len(x), len(y)] + ([] if p is None else [len(p)])
    if x.ndim < 2 or not x.size or len({*counts}) > 1:
        raise Refusal(
            f"x has shape {x.shape} and there are {counts[1:]} labels; give at least "
            "one example, as x [m, features …], with as many labels"
        )
    for name, values in (("x", x), ("y", y)):
        if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise Refusal(
                f"{name} is {values.dtype}, or holds NaN or infinity; give finite "
                "numbers"
            )
    return Examples(x, y, p)
