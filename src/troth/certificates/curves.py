"""Certified accuracy over radii, for each client.

References: zhai2020macer, clopper1934use.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from troth.certificates import bounds
from troth.certificates.record import certified
from troth.certificates.smoothing import Smoothing
from troth.certificates.spread import ALPHA, difference, noise, spread

_POINTS = 101


class Curves(NamedTuple):
    """Certified accuracy at every radius, one row per client, and statistics of it."""

    radii: np.ndarray  # [r]
    clients: np.ndarray  # [n] ids
    examples: np.ndarray  # [n] number of each client's examples
    accuracy: np.ndarray  # [n, r] share of examples right and certified at a radius
    acr: np.ndarray  # [n] mean over all examples of radius·1[right]: area under a curve
    acr_right: np.ndarray  # [n] mean radius of right examples; NaN if none is right
    abstained: np.ndarray  # [n] share of examples on which the classifier abstains
    used: np.ndarray  # [n] mean samples of an example
    acr_noise: np.ndarray  # [n] variance of `acr` due to the choice of examples

    @property
    def noise(self) -> np.ndarray:
        """Variance of `accuracy` due to the choice of examples, [n, r]."""
        right = self.accuracy * self.examples[:, None]
        return noise(right, right, self.examples)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper ends [n, r] of 95 % intervals of certified accuracy.

        Each is the Clopper–Pearson interval for one client and one radius. It is about
        certified accuracy on the distribution from which the client's test examples are
        drawn.
        """
        m = self.examples[:, None]
        right = np.rint(self.accuracy * m)
        low = bounds.lower(right, m, ALPHA / 2)
        return low, bounds.upper(right, m, ALPHA / 2)

    def summary(self) -> dict[str, Any]:
        """Return mean, spread and limits over clients, and the curves of each client.

        `std` is the standard deviation over clients. `spread` subtracts the part of it
        that is due to having few test examples. Both measure unfairness.

        `acr` is the area under the curves (the paper's figure 5), `acr_right` the mean
        radius of correctly classified examples (its section 4.4). The paper calls both
        the average certified radius.
        """
        a, right = self.accuracy, self.acr_right[~np.isnan(self.acr_right)]
        low, high = self.interval()
        return {
            "radii": self.radii,
            "mean": a.mean(axis=0),
            "std": a.std(axis=0),
            "spread": spread(a, self.noise),
            "min": a.min(axis=0),
            "max": a.max(axis=0),
            "acr": self.acr.mean(),
            "acr_std": self.acr.std(),
            "acr_spread": spread(self.acr, self.acr_noise),
            "acr_right": right.mean() if len(right) else np.nan,
            "abstained": self.abstained.mean(),
            "used": np.average(self.used, weights=self.examples),
            "clients": {
                int(k): {
                    "examples": int(self.examples[i]),
                    "accuracy": a[i],
                    "low": low[i],
                    "high": high[i],
                    "acr": float(self.acr[i]),
                    "acr_right": float(self.acr_right[i]),
                }
                for i, k in enumerate(self.clients)
            },
        }


def paired(every: Mapping[str, Curves]) -> list[dict[str, Any]]:
    """Compare, for each pair of models, how much the clients differ.

    Args:
        every: the curves of each model, at the same radii.

    Returns:
        One dictionary per pair with the same clients. It has the names of the two
        `models`, and two differences of variances over clients (first model minus
        second, with a 95 % interval): that of certified accuracy at each radius
        (`accuracy`), and that of the average certified radius (`acr`).
    """
    found = []
    for (one, a), (two, b) in combinations(every.items(), 2):
        if np.array_equal(a.clients, b.clients):
            each = difference(a.accuracy, a.noise, b.accuracy, b.noise)
            acr = difference(a.acr, a.acr_noise, b.acr, b.acr_noise)
            both = {"accuracy": each._asdict(), "acr": acr._asdict()}
            found.append({"models": [one, two], **both})
    return found


def curves(
    client: np.ndarray,
    y: np.ndarray,
    label: np.ndarray,
    radius: np.ndarray,
    used: np.ndarray,
    radii: ArrayLike,
) -> Curves:
    """Compute curves from the certificates of m examples, given as arrays [m]."""
    ids, wanted = np.unique(client), np.asarray(radii, dtype=np.float64)
    right = label == y
    held = certified(label, radius, wanted) & right[:, None]
    rows = [client == k for k in ids]

    def sums(values: np.ndarray) -> np.ndarray:
        return np.array([values[mine].sum(axis=0) for mine in rows])

    def means(values: np.ndarray) -> np.ndarray:
        return np.array([values[mine].mean(axis=0) for mine in rows])

    none, own = np.array([np.nan]), [radius[mine & right] for mine in rows]
    only = np.array([(one if len(one) else none).mean() for one in own])
    size, area = np.array([mine.sum() for mine in rows]), radius * right
    return Curves(
        wanted,
        ids,
        size,
        means(held),
        means(area),
        only,
        means(label < 0),
        means(used),
        noise(sums(area), sums(area**2), size),
    )


def grid(s: Smoothing) -> np.ndarray:
    """Return radii for a curve: the requested ones, or 101 up to the largest."""
    if s.asked.radii:
        return np.array(s.asked.radii)
    most = bounds.lower(s.n, s.n, s.alpha)
    return np.linspace(0, float(bounds.radius(most, s.sigma, s.law)), _POINTS)
