"""Standardization that every client fits by itself; no message is sent."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from troth.data.features import _sums
from troth.types import Statistics


def own(
    train: Sequence[np.ndarray],
    *,
    center: bool = True,
    scale: bool = True,
    impute: Literal["mean", "median", "zero"] = "mean",
) -> Statistics:
    """Standardize each client's data by statistics of its own training examples.

    Each feature x becomes (x − mean)/std, where std = √(Σ(x − mean)²/count). Mean and
    std are over the values that are not missing in the client's training examples. A
    feature without values has mean 0 and std 1, and missing values become 0. A constant
    feature has std 1. Equal inputs of two clients are in general not equal afterwards:
    the shared model sees how much an example deviates from the mean of its client.

    No message is sent. A malicious client fits its statistics to its corrupted data,
    which does not affect other clients.

    Args:
        train: [m_k, ...] the training examples of each client; NaN: missing.
        center: Whether the mean is subtracted.
        scale: Whether values are divided by the standard deviation.
        impute: Value that replaces a missing one: the mean or median of the feature, or
            0 (before standardization).

    Returns:
        Statistics [n, ...], one row per client.
    """
    each = [_one(x, center, scale, impute) for x in train]
    return Statistics(*map(np.stack, zip(*each, strict=True)))


def _one(x: np.ndarray, center: bool, scale: bool, impute: str) -> Statistics:
    first = _sums.mean([_sums.sums(x)])
    second = _sums.mean([_sums.sums(_sums.squares(x, first.value))])
    fill = first.value if impute == "mean" else np.zeros_like(first.value)
    if impute == "median" and len(x):
        fill = np.nanmedian(np.where(first.number > 0, x, 0.0), axis=0)
    return _sums.statistics(first, second, fill, center, scale)
