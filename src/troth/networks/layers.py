"""The input normalization of every model, and dense layers."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from troth.types import Refusal

_CHUNK = 1 << 21  # numbers that are converted to float64 at a time: 16 MB


class Normalize(nn.Module):
    """(x − mean)·(1/std): the input normalization of every model.

    Inputs are bytes or floats, and are converted to the dtype of the buffers. Mean and
    1/std are buffers: they are stored with the model, but neither trained nor averaged.
    """

    mean: Tensor
    inverse: Tensor

    def __init__(
        self, mean: float | np.ndarray | Tensor, std: float | np.ndarray | Tensor
    ) -> None:
        super().__init__()
        shift = torch.as_tensor(mean, dtype=torch.float64)
        spread = torch.as_tensor(std, dtype=torch.float64)
        if not bool((spread > 0).all() and spread.isfinite().all()):
            raise Refusal(
                "standard deviations to divide by must be positive numbers, and "
                f"{float(spread.min())} is among them; leave out constant features"
            )
        kind = torch.get_default_dtype()
        self.register_buffer("mean", shift.to(kind))
        self.register_buffer("inverse", spread.reciprocal().to(kind))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize [b, ...] of any dtype."""
        return (x.to(self.mean.dtype) - self.mean) * self.inverse


class Features(nn.Module):
    """Preparation of one client's inputs: NaN becomes `fill`, then (x − mean)/std.

    This layer is put in front of the network of a finished run. The network then
    accepts inputs in the units of the data, with missing values. The buffers are
    float64, as in training, because with a large mean float32 is too imprecise. Call
    `.float()` for devices without float64.
    """

    fill: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, fill: Tensor, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        given = {"fill": fill, "mean": mean, "std": std}
        finite = all(bool(values.isfinite().all()) for values in given.values())
        if not finite or bool((std <= 0).any()):
            raise Refusal(
                "features are prepared by finite numbers and positive standard "
                "deviations, and some here are not; look for huge values in x"
            )
        for name, values in given.items():
            self.register_buffer(name, values.to(torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Prepare [b, ...] of any dtype."""
        x = x.to(self.mean.dtype)
        return (torch.where(x.isnan(), self.fill, x) - self.mean) / self.std


def normalize(
    kind: Literal["unit", "pixel", "fixed", "none"],
    x_train: np.ndarray,
    scale: float,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> Normalize:
    """Return the input normalization for a data set.

    Args:
        kind: "unit" is x/scale. "pixel" is (x − mean)/(std + 0.001·scale/255), where
            mean and std are those of each feature over the training examples, as in
            Ditto's code for Fashion MNIST. "fixed" is (x/scale − mean)/std. "none" only
            converts the dtype.
        x_train: [m, ...] training examples, bytes or floats; only "pixel" uses them.
        scale: Value of x that is scaled to 1.
        mean: Number to subtract, or one number per channel (first axis of an example).
        std: As many numbers as `mean`, all positive.
    """
    if not 0 < scale < math.inf:
        raise Refusal(f"the scale of the data is {scale}; it must be a positive number")
    if kind == "none":
        return Normalize(0.0, 1.0)
    if kind == "unit":
        return Normalize(0.0, scale)
    if kind == "pixel":
        center, spread = _moments(x_train)
        return Normalize(center, spread + 0.001 * scale / 255)
    if kind == "fixed":
        shape, channels = x_train.shape[1:], len(mean)
        if channels > 1 and (len(shape) < 2 or shape[0] != channels):
            raise Refusal(
                f"model.mean has {channels} numbers, one per channel, and an example "
                f"has shape {list(shape)}; give one number"
            )
        per_channel = (-1, *[1] * (len(shape) - 1))
        center, spread = (scale * np.reshape(v, per_channel) for v in (mean, std))
        return Normalize(center, spread)
    raise Refusal(
        f"normalize = {kind!r} is not one of 'unit', 'pixel', 'fixed', 'none'"
    )


def _moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each feature, in float64."""
    if len(x) == 0:
        raise Refusal("normalize = 'pixel' needs training rows, and there are 0")
    total = np.zeros(x.shape[1:])
    for rows in _chunks(x):
        total += rows.sum(axis=0)
    mean = total / len(x)
    bad = mean.size - np.isfinite(mean).sum()
    if bad:
        raise Refusal(
            f"normalize = 'pixel' needs finite features, and {bad} of {mean.size} hold "
            "NaN or infinity; clean the data or take 'unit'"
        )
    squares = np.zeros(x.shape[1:])
    for rows in _chunks(x):
        squares += np.square(rows - mean).sum(axis=0)
    return mean, np.sqrt(squares / len(x))


def _chunks(x: np.ndarray) -> Iterator[np.ndarray]:
    rows = max(1, _CHUNK // max(1, math.prod(x.shape[1:])))
    for start in range(0, len(x), rows):
        yield x[start : start + rows].astype(np.float64)


def dense(
    inputs: int, widths: list[int], outputs: int, dropout: list[float] | None = None
) -> list[nn.Module]:
    """Return fully connected layers with ReLU between them.

    `dropout` has one probability per layer, including the last one, with which its
    inputs are dropped. None, or a probability of 0, means no dropout.
    """
    positive("model.widths", widths)
    drops = dropout or [0.0] * (len(widths) + 1)
    if len(drops) != len(widths) + 1 or not all(0 <= p < 1 for p in drops):
        raise Refusal(
            f"model.dropout = {drops} must hold {len(widths) + 1} numbers of at least "
            "0 and below 1, one for each fully connected layer, the last one too"
        )
    parts: list[nn.Module] = []
    for (a, b), p in zip(pairwise([inputs, *widths, outputs]), drops, strict=True):
        parts += [nn.Dropout(p)] if p else []
        parts += [nn.Linear(a, b), nn.ReLU()]
    return parts[:-1]


def positive(option: str, value: int | list[int]) -> None:
    """Raise Refusal if a width is below 1."""
    if isinstance(value, int):
        if value < 1:
            raise Refusal(f"{option} = {value} must be a whole number of at least 1")
    elif any(width < 1 for width in value):
        raise Refusal(f"{option} = {value} must hold whole numbers of at least 1")
