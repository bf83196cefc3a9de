"""Poisoned examples that are read from a file."""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import files, seeding
from troth.data import labels
from troth.data.datasets._arrays import (
    check_labels,
    check_length,
    finite,
    inputs,
    read,
)
from troth.types import Exact, Refusal


class _Wanted(NamedTuple):
    """Format that the examples of the file must have: that of the data set."""

    shape: tuple[int, ...]  # shape of one example
    dtype: torch.dtype  # dtype of x
    classes: int  # number of classes; 0: regression
    several: bool  # whether an example may have several labels
    scale: float  # value of x that is scaled to 1


def from_file(
    x: Tensor,
    y: Tensor,
    classes: int,
    key: Tensor,
    scale: float = 1.0,
    seat: int = 0,
    seats: int = 1,
    *,
    path: str,
    take: Literal["fill", "all", "share"] = "fill",
    mix: bool = False,
    repeat: int = 1,
    weight: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Replace a client's own examples by examples from a file, or add these to them.

    The file is written by `np.savez(path, x=…, y=…)`. All malicious clients read the
    same file. Its arrays have the format of the data set:

    - `x` [m, …]: inputs with the shape and unit of the data set's inputs. If those are
      bytes, `x` must be bytes too. (Gray images may be [m, height, width] bytes.)
    - `y`: labels 0 … C−1 of the data set (not all classes need to occur), rows of 0 and
      1 if an example may have several labels, or targets of a regression.

    The file may have two more arrays:

    - `p` [m, C]: soft labels, the probability of each class. The client's loss is then
      −Σ_c p_c·log softmax_c, and y is not used.
    - `scale`: the value of the file's x that is scaled to 1. With it, inputs are
      converted to the unit of the data set. The result may be fractions of any size,
      even if the data set has bytes. If so, all clients' inputs are stored as floats,
      which takes four times the memory and changes no value.

    Threat model: the author of the file may know anything. The client controls its own
    training data and nothing else. If the client's loss is a mean, a weight other than
    1 needs more: the client must change its loss.

    Args:
        x: [k, …] examples to replace.
        y: [k, …] labels of these examples.
        classes: Number of classes C; 0: regression.
        key: Key of the random choice of examples from the file.
        scale: Value of the data set's x that is scaled to 1.
        seat: Index of the client among the malicious ones.
        seats: Number of malicious clients.
        path: Path of the file.
        take: Examples that a client takes from the file. "fill": the same number as it
            replaces, drawn without replacement. If the file has fewer, the drawn
            examples are repeated. "all": all examples of the file, which changes the
            client's number of examples. "share": an equal part of the file, which is
            divided among the malicious clients.
        mix: Whether the file's examples are added to the client's own, instead of
            replacing them.
        repeat: Number of copies of each example, with take = "all" or "share".
        weight: Factor on the loss of each example of the file; 0 removes their
            influence. If losses are summed (`coupled` with fit = "sum"), the factor has
            the same effect as that number of copies, without their cost. Each example
            must have one label.
    """
    _check(take, repeat, weight, labelled=classes > 0 and y.dim() == 1)
    wanted = _Wanted(tuple(x.shape[1:]), x.dtype, classes, y.dim() == 2, scale)
    held_x, held_y = _read(path, files.version(path), wanted)
    m = len(held_y)
    if take == "share" and m < seats:
        raise Refusal(
            f"{path} holds {m} examples, too few to divide among {seats} "
            "malicious clients; set corruption.take = 'all', or have fewer of them"
        )
    first, step = (seat, seats) if take == "share" else (0, 1)
    rows = np.tile(np.arange(first, m, step), repeat)
    if take == "fill":
        rows = np.arange(len(y)) % m
        rows = seeding.permute(key.reshape(1).numpy(), rows, np.array([m]))
    new_x, new_y = torch.from_numpy(held_x[rows]), torch.from_numpy(held_y[rows])
    if x.is_floating_point():
        new_x = new_x.to(x.dtype)
    if weight != 1:
        new_y = labels.shares(new_y, classes, torch.float64) * weight
    new_y = new_y if labels.soft(new_y) else new_y.to(y.dtype)
    if not mix:
        return Exact(new_x, new_y)
    own = labels.shares(y, classes, new_y.dtype) if labels.soft(new_y) else y
    return Exact(torch.cat([x.to(new_x.dtype), new_x]), torch.cat([own, new_y]))


def _check(take: str, repeat: int, weight: float, labelled: bool) -> None:
    if repeat < 1 or (take == "fill" and repeat > 1):
        raise Refusal(
            f"corruption.repeat = {repeat} must be at least 1, and 1 with corruption."
            "take = 'fill', which repeats as needed; set take = 'all'"
        )
    if not 0 <= weight < math.inf:
        raise Refusal(
            f"corruption.weight = {weight} must be a finite number of at least 0; with "
            "1, an example counts like any other"
        )
    if weight != 1 and not labelled:
        raise Refusal(
            f"corruption.weight = {weight} needs one label per example, and this "
            "data set has targets or several labels; set corruption.repeat instead"
        )


@lru_cache(maxsize=1)
def _read(
    path: str, version: tuple[int, ...], wanted: _Wanted
) -> tuple[np.ndarray, np.ndarray]:
    """Read and check x and y, or p if the file has it, once for all clients.

    `version` changes with the file, so a cached result is never outdated.
    """
    content = read(path, "corruption.path", ("x", "y", "p", "scale"))
    x = _inputs(path, content, wanted)
    y = content["y"]
    check_length(path, content, len(x))
    check_labels(path, "the data set", y, wanted.classes, wanted.several)
    return x, _shares(path, content["p"], len(x), wanted) if "p" in content else y


def _inputs(path: str, content: dict[str, np.ndarray], wanted: _Wanted) -> np.ndarray:
    """Return the file's x, in the units of the data set."""
    given, shape = content["x"], wanted.shape
    x = inputs(path, given)
    if x.dtype == np.uint8 and given.shape[1:] == shape:
        x = given  # it has the right shape already, so it is not read as images
    finite(path, "x", x)
    if x.shape[1:] != shape:
        raise Refusal(
            f"{path}: an example of x has shape {list(x.shape[1:])}, and one of the "
            f"data set {list(shape)}; they must be the same"
        )
    alike = (x.dtype == np.uint8) == (wanted.dtype == torch.uint8)
    if "scale" in content:
        known = content["scale"]
        if known.size != 1 or known.dtype.kind not in "iuf" or not 0 < known < math.inf:
            raise Refusal(
                f"{path}: scale must be one positive number by which x is "
                "divided, such as 1.0, or 255 for bytes"
            )
        factor = wanted.scale / float(known.reshape(()))
    elif alike:
        factor = 1.0
    else:
        raise Refusal(
            f"{path}: x is {x.dtype}, and the inputs of the data set are "
            f"{str(wanted.dtype)[6:]}; give both as bytes or both as numbers, in "
            "the units of the data set, or add scale to the file: the number by which "
            "its x is divided, such as 255 for bytes"
        )
    if factor == 1 and alike:
        return x
    x = (x.astype(np.float32) if x.dtype == np.uint8 else x) * factor
    finite(path, f"x times {factor:g}, in the units of the data set,", x)
    return x


def _shares(path: str, p: np.ndarray, m: int, wanted: _Wanted) -> np.ndarray:
    """Return the file's soft labels p."""
    if wanted.classes == 0 or wanted.several:
        kind = "several labels per example" if wanted.several else "targets, no classes"
        raise Refusal(
            f"{path} holds soft labels p, and this data set has {kind}; leave p out"
        )
    shape = (m, wanted.classes)
    if p.shape != shape or p.dtype.kind != "f":
        raise Refusal(
            f"{path}: p is {p.dtype} of shape {list(p.shape)}; it must be fractions of "
            f"shape {list(shape)}, the probability of each class"
        )
    if why := labels.wrong(torch.from_numpy(p.astype(np.float64))):
        raise Refusal(
            f"{path}: p in {why}; every row must be probabilities: at least 0, with "
            "sum 1 (divide by p.sum(axis=1, keepdims=True))"
        )
    return p.astype(np.float64)
