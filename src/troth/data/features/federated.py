"""Standardization by the mean and spread of all clients' data, from the clients' sums.

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
    feature. In the first, the client sums its values, which gives the mean of all
    clients. In the second, it sums their squared distances from this mean, which gives
    the standard deviation. (This is the two-pass algorithm of Chan, Golub and LeVeque,
    which loses no digits if the mean is large.)

    If `min_values` is 1, the result is the same as for all training examples in one
    place. With a larger value, a client with fewer values of a feature does not send
    their sum. A median cannot be computed from sums; only `own` offers it. A feature
    that no client sends has mean 0 and std 1 and is filled with 0. A constant feature
    has std 1.

    Threat model: the server, and anyone who reads the messages, sees each client's
    sums, unless secure aggregation hides them. Every client sees the result. From it,
    each of two clients knows the other's sums, and n − 1 clients together know those of
    the last one. Sums of a few values reveal much about each value. No robustness is
    claimed: one malicious client can shift and scale the inputs of all clients by its
    message or by its data. Only invalid messages (NaN, infinity, negative counts) are
    left out.

    Args:
        train: [m_k, ...] the training examples of each client; NaN: missing.
        names: Names of the features, for error messages; if empty, their numbers are
            used.
        center: Whether the mean is subtracted.
        scale: Whether values are divided by the standard deviation.
        impute: Value that replaces a missing one: the feature's mean, or 0, in its
            units.
        min_values: Fewest values of a feature for which a client sends their sum. 1
            sends all sums; the sum of a single value reveals that value.

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
