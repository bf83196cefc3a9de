"""Sums from which features are standardized, for clients and for the server.

There are two exchanges, one for the values and one for their squared distances from the
mean. In each, a client calls `sums` and sends the result, and the server calls
`pooled`. A simulation and a deployment use the same functions.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from troth.types import Refusal, Statistics


class Sums(NamedTuple):
    """The message of one client, with the shape [...] of an example."""

    number: np.ndarray  # [...] number of values of each feature
    total: np.ndarray  # [...] sum of the values of each feature


class Mean(NamedTuple):
    """The mean of the values of several clients."""

    number: np.ndarray  # [...] number of values of each feature
    value: np.ndarray  # [...] their mean; 0 if there are none


def sums(values: np.ndarray, least: int = 1) -> Sums:
    """Return count and sum of a client's values [m, ...], in which NaN is missing.

    If a feature has fewer than `least` values, its count and sum are 0.
    """
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    with np.errstate(over="ignore"):
        total = np.where(there, values, 0.0).sum(axis=0)
    enough = count >= least
    return Sums(np.where(enough, count, 0), np.where(enough, total, 0.0))


def squares(values: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the squared distances from the mean, for the second exchange."""
    with np.errstate(over="ignore"):
        return np.asarray(np.square(values - mean))


def mean(sent: Sequence[Sums]) -> Mean:
    """Return the mean over the values of all clients, from their sums."""
    with np.errstate(over="ignore", invalid="ignore"):
        number = np.stack([s.number for s in sent]).sum(axis=0, dtype=np.float64)
        total = np.stack([s.total for s in sent]).sum(axis=0, dtype=np.float64)
        value = np.where(number > 0, total / np.maximum(number, 1), 0.0)
    return Mean(number, value)


def pooled(
    sent: Sequence[Sums],
    shape: tuple[int, ...],
    names: Sequence[str] = (),
    lowest: float = -np.inf,
) -> Mean:
    """Return the mean over all clients' values, computed by the server.

    Invalid messages are left out. A message is invalid if its shape is not that of an
    example, if it has NaN, infinity or a negative count, or if a sum is below `lowest`.
    Raise Refusal if the result would reveal the sums of a single client.

    Args:
        sent: the messages of the clients.
        shape: shape of an example.
        names: names of the features, for error messages.
        lowest: smallest valid sum; 0 for squared distances.
    """
    good = [s for s in sent if _valid(s, shape, lowest)]
    if len(good) < 2:
        who = f"{len(good)} client{'' if len(good) == 1 else 's'}"
        raise Refusal(
            f"features 'federated' over {who} would reveal that client's values to "
            "all: use at least 2 clients, or set features.name = 'own'"
        )
    holders = np.stack([s.number > 0 for s in good]).sum(axis=0)
    if (holders == 1).any():
        alone = np.flatnonzero(holders == 1)
        some = ", ".join(names[k] if names else str(k) for k in alone[:4])
        raise Refusal(
            f"{len(alone)} of the features ({some}{' …' if len(alone) > 4 else ''}) "
            "have enough values at one client only, and features 'federated' would "
            "reveal its values to all: drop them, or set features.name = 'own'"
        )
    return mean(good)


def _valid(sent: Sums, shape: tuple[int, ...], lowest: float) -> bool:
    count, total = np.asarray(sent.number), np.asarray(sent.total)
    fits = count.shape == total.shape == tuple(shape)
    finite = fits and np.isfinite(count).all() and np.isfinite(total).all()
    return bool(finite and (count >= 0).all() and (total >= lowest).all())


def statistics(
    first: Mean, second: Mean, fill: np.ndarray, center: bool, scale: bool
) -> Statistics:
    """Return the statistics of features from two means.

    A feature is constant if its variance is within the rounding error of the sums, var
    ≤ n·ε·var + (n·ε·mean)² for n values and machine precision ε. This is the bound of
    scikit-learn's StandardScaler.

    Args:
        first: mean of the values.
        second: mean of their squared distances from the mean.
        fill: values that replace missing ones.
        center: whether the mean is subtracted.
        scale: whether values are divided by the standard deviation.
    """
    small = first.number * np.finfo(np.float64).eps
    with np.errstate(over="ignore"):
        rounding = small * second.value + np.square(small * first.value)
    constant = second.value <= rounding
    std = np.sqrt(np.where(constant, 1.0, second.value))
    return Statistics(
        fill,
        first.value if center else np.zeros_like(fill),
        std if scale else np.ones_like(fill),
        constant,
    )
