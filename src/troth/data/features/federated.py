"""Standardization by mean and standard deviation of all clients' data.

References: chan1983algorithms.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from troth.data.features import _sums
from troth.types import Refusal, Statistics


def federated(
    train: Sequence[np.ndarray],
    names: Sequence[str] = (),
    *,
    center: bool = True,
    scale: bool = True,
    impute: Literal["mean", "zero"] = "mean",
    min_values: int = 2,
) -> Statistics:
    """Standardize all clients' data by shared statistics; clients send only sums.

    There are two exchanges, in each of which a client sends a count and a sum for every
    feature. In the first, the client sums its values, from which the mean over all
    clients follows. In the second, it sums the squared distances of its values from
    this mean, from which the standard deviation (std) follows. This is the two-pass
    algorithm of Chan, Golub and LeVeque, which is accurate even if the mean is large.

    If `min_values` is 1, the result is the same as for all training examples in one
    place. Otherwise, a client that has fewer values of a feature does not send their
    sum. Medians cannot be computed from sums; use `own` for them. A feature for which
    no client sends a sum has mean 0 and std 1, and missing values become 0. A constant
    feature has std 1.

    Threat model: the server, and anyone who reads the messages, sees each client's
    sums, unless secure aggregation hides them. Every client sees the result. If there
    are two clients, each can compute the other's sums from it. In general, n − 1
    clients together can compute those of the last one. Sums of a few values reveal much
    about each value. There is no robustness: one malicious client can shift and scale
    the inputs of all clients by its message or by its data. Only invalid messages (NaN,
    infinity, negative counts) are left out.

    Args:
        train: [m_k, ...] the training examples of each client; NaN: missing.
        names: Names of the features, for error messages; if empty, their numbers are
            used.
        center: Whether the mean is subtracted.
        scale: Whether values are divided by the standard deviation.
        impute: Value that replaces a missing one: the mean of the feature, or 0 (before
            standardization).
        min_values: Fewest values of a feature with which a client sends their sum. With
            1, all sums are sent; the sum of a single value reveals this value.

    Returns:
        Statistics [...], the same for all clients.

    Raises:
        Refusal: There are fewer than two clients, or only one client sends sums of some
            feature.
    """
    if min_values < 1:
        raise Refusal(f"features.min_values = {min_values} must be at least 1")
    shape = train[0].shape[1:]
    sent = [_sums.sums(x, min_values) for x in train]
    first = _sums.pooled(sent, shape, names)
    sent = [_sums.sums(_sums.squares(x, first.value), min_values) for x in train]
    second = _sums.pooled(sent, shape, names, lowest=0.0)
    if not first.number.any():
        raise Refusal(
            f"features.min_values = {min_values} is more than any client has of any "
            "feature, so that no sums are sent; lower it, or set features.name = 'own'"
        )
    fill = first.value if impute == "mean" else np.zeros(shape)
    return _sums.statistics(first, second, fill, center, scale)
