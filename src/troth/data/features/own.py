"""Standardization that every client fits by itself; nothing crosses the wire."""

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
    """Each client fills in and standardizes by its own training examples.

    x → (x − mean)/std for each feature, where mean and std = √(Σ(x − mean)²/count) are
    over the values that the client's training examples have. A feature of which they
    have no value has mean 0 and std 1 and is filled with 0; one that is constant there
    has std 1. Equal inputs at two clients are in general no longer equal afterwards: a
    shared model sees how far from what is usual at its client an example is.

    Nothing crosses the wire. A malicious client fits on what it has made of its data;
    no other client is touched by that.

    Args:
        train: [m_k, ...] the training examples of each client; NaN: missing.
        center: Whether the mean is subtracted.
        scale: Whether values are divided by the standard deviation.
        impute: Value in place of a missing one: the feature's mean or median, or 0, in
            its units.

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
