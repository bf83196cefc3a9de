"""The sums from which features are standardized: what a client sends, and what of it.

Once for the values and once for their squared distances from the mean: the client calls
`sums`, the server `pooled`. In a simulation and in a deployment these are the same
functions, and a `Sums` is all that crosses the wire.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from troth.types import Refusal, Statistics


class Sums(NamedTuple):
    """All that one client tells of its values, feature by feature."""

    number: np.ndarray  # [...] how many it has
    total: np.ndarray  # [...] their sum


class Mean(NamedTuple):
    """Of the values that were counted; 0 where there were none."""

    number: np.ndarray  # [...]
    value: np.ndarray  # [...]


def sums(values: np.ndarray, least: int = 1) -> Sums:
    """Sum what a client sends of its values [m, ...], of which NaN are missing.

    Of a feature with fewer values than `least`, count and sum are sent as 0.
    """
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    with np.errstate(over="ignore"):
        total = np.where(there, values, 0.0).sum(axis=0)
    enough = count >= least
    return Sums(np.where(enough, count, 0), np.where(enough, total, 0.0))


def squares(values: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Squared distances from the mean, of which a client sends the sums next."""
    with np.errstate(over="ignore"):
        return np.asarray(np.square(values - mean))


def mean(sent: Sequence[Sums]) -> Mean:
    """Return the mean of all that was counted."""
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
    """Pool the sums of clients at the server; no client may stand alone.

    Messages that are no sums are left out, as `drop_invalid` leaves out updates: of
    another shape than an example's, NaN, infinite, or a sum below `lowest` (0 for
    squared distances).
    """
    good = [s for s in sent if _valid(s, shape, lowest)]
    if len(good) < 2:
        who = f"{len(good)} client{'' if len(good) == 1 else 's'}"
        raise Refusal(
            f"features 'federated' over {who} would tell that client's own values to "
            "all: use at least 2 clients, or set features.name = 'own'"
        )
    holders = np.stack([s.number > 0 for s in good]).sum(axis=0)
    if (holders == 1).any():
        alone = np.flatnonzero(holders == 1)
        some = ", ".join(names[k] if names else str(k) for k in alone[:4])
        raise Refusal(
            f"{len(alone)} of the features ({some}{' …' if len(alone) > 4 else ''}) "
            "have enough values at one client only, and features 'federated' would "
            "tell that client's own to all: drop them, or set features.name = 'own'"
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
    """Turn the means of values and of squared distances into what is applied.

    A feature is constant where its spread is within the rounding error of the sums,
    var ≤ n·ε·var + (n·ε·mean)², the bound of scikit-learn's StandardScaler.
    `fill` stands for a missing value.
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
