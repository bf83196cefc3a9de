"""Standardization by the whole federation's mean and spread, from sums of clients.

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
    """All clients fill in and standardize alike; clients send only sums.

    Two exchanges, in each of which a client sends a count and a sum of every feature:
    first of its values, which gives the mean of all; then of their squared distances
    from it, which gives the spread (the two-pass algorithm of Chan, Golub and LeVeque,
    which loses no digits where the mean is large). The result is that of all training
    examples in one place, for what clients tell (see `min_values`). A median is no sum,
    and is to be had from `own` alone. A feature that no client tells of has mean 0 and
    std 1 and is filled with 0; one that is constant has std 1.

    Threat model: the server, and whoever listens, sees each client's sums, unless they
    are added up in secret; every client sees the result, from which two clients know
    each other's sums and, together, n − 1 clients the last one's. Sums of a few values
    say much about each. No robustness is claimed: one malicious client can shift and
    stretch the inputs of all by what it sends (or by what it makes of its data); only
    sums that are no sums (NaN, infinite, negative counts) are left out.

    Args:
        train: [m_k, ...] the training examples of each client; NaN: missing.
        names: Names of the features, for refusals; their numbers if there are none.
        center: Whether the mean is subtracted.
        scale: Whether values are divided by the standard deviation.
        impute: Value in place of a missing one: the feature's mean, or 0, in its units.
        min_values: Fewest values of a feature for a client to report on it. 1 reports
            all (the sum of a single value is that value).

    Returns:
        Statistics [...], the same for all.

    Raises:
        Refusal: fewer than two clients, or a feature that only one client tells of.
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
            "feature, so that nothing is told; lower it, or set features.name = 'own'"
        )
    fill = first.value if impute == "mean" else np.zeros(shape)
    return _sums.statistics(first, second, fill, center, scale)
