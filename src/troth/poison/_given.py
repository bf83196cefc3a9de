"""Check arguments, and convert arrays to float64."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from troth.types import Refusal


class Examples(NamedTuple):
    """Poisoned examples."""

    x: np.ndarray  # [m, d]
    y: np.ndarray  # [m] int64 labels, or float64 targets of a regression
    p: np.ndarray | None = None  # [m, classes] soft labels, of which y is the argmax


def array(name: str, values: ArrayLike | Tensor, ndim: int) -> np.ndarray:
    """Convert values to a float64 array.

    Raise Refusal, which calls the values `name`, if some are not finite, or if the
    array does not have `ndim` axes.
    """
    if isinstance(values, Tensor):
        values = values.detach().to("cpu", torch.float64).numpy()
    found = np.asarray(values, np.float64)
    if found.ndim != ndim:
        raise Refusal(
            f"{name} has shape {found.shape}, with {found.ndim} axes; give an array "
            f"with {ndim}"
        )
    if not np.isfinite(found).all():
        raise Refusal(
            f"{name} has {int((~np.isfinite(found)).sum())} NaN or infinite values, "
            "but an attack needs finite numbers; train with a smaller lr"
        )
    return found


def same_size(name: str, values: np.ndarray, other: str, size: int) -> None:
    """Raise Refusal if the last axis of `values` does not have this size.

    Args:
        name: name of the values, for the error message.
        values: a vector, or a matrix with one vector per row.
        other: name of the model that has this size.
        size: the size.
    """
    if values.shape[-1] != size:
        raise Refusal(
            f"{name} has {values.shape[-1]} parameters and {other} has {size}; both "
            "must be of the same model"
        )


def above_zero(name: str, value: float, why: str) -> None:
    """Raise Refusal, with the reason `why`, unless a value is finite and above 0."""
    if not (value > 0 and math.isfinite(value)):
        raise Refusal(f"{name} = {value} must be a finite number above 0; {why}")


def strength(lam: float) -> None:
    """Raise Refusal if λ ≤ 0, because then local models do not move the shared one."""
    above_zero("lam", lam, "with 0, no local model moves the shared model: set lam = 1")


def at_least_zero(name: str, value: float) -> None:
    """Raise Refusal unless a value is a finite number of at least 0."""
    if not (value >= 0 and math.isfinite(value)):
        raise Refusal(f"{name} = {value} must be a finite number, 0 or more")


def some(count: int) -> None:
    """Raise Refusal if the number of examples is below 1."""
    if count < 1:
        raise Refusal(
            f"the number of poisoned examples is {count}; it must be at least 1"
        )
