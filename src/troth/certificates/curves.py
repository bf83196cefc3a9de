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
    """Certified accuracy at every radius, and other statistics, for every client."""

    radii: np.ndarray  # [r]
    clients: np.ndarray  # [n] ids
    examples: np.ndarray  # [n] number of each client's examples
    accuracy: np.ndarray  # [n, r] share of examples correct and certified at a radius
    acr: (
        np.ndarray
    )  # [n] mean over examples of the radius, 0 if wrong: area under curve
    acr_right: np.ndarray  # [n] mean radius of correct examples; NaN if there is none
    abstained: np.ndarray  # [n] share of examples on which the classifier abstains
    used: np.ndarray  # [n] mean number of noisy samples per example
    acr_noise: np.ndarray  # [n] variance of `acr` due to the choice of examples

    @property
    def noise(self) -> np.ndarray:
        """Variance of `accuracy` due to the random choice of examples, [n, r]."""
        right = self.accuracy * self.examples[:, None]
        return noise(right, right, self.examples)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper ends, [n, r] each, of intervals of certified accuracy.

        Each is a 95 % Clopper–Pearson interval for one client and one radius. It covers
        the certified accuracy on the distribution from which the client's test examples
        are drawn.
        """
        m = self.examples[:, None]
        right = np.rint(self.accuracy * m)
        low = bounds.lower(right, m, ALPHA / 2)
        return low, bounds.upper(right, m, ALPHA / 2)

    def summary(self) -> dict[str, Any]:
        """Return statistics over clients, and the curves of each client.

        `std` is the standard deviation over clients. `spread` is an estimate of it
        without the variance that is due to few test examples. Both measure unfairness.

        Alfarra et al. (2022) have two definitions of the average certified radius:
        `acr` is the area under the curves (their Figure 5), and `acr_right` is the mean
        radius of correctly classified examples (their Section 4.4).
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
    """Compare how much clients differ under each pair of models.

    Args:
        every: the curves of each model, at the same radii.

    Returns:
        One dictionary per pair of models that have the same clients. `models` are the
        names of the pair. The other values are differences of variances over clients,
        first model minus second, with 95 % intervals. `accuracy` is about the certified
        accuracy at each radius, and `acr` about the average certified radius.
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
    """Compute the curves of every client from the certificates of m examples.

    Args:
        client: [m] client of each example.
        y: [m] true classes.
        label: [m] certified classes; −1 if the classifier abstains.
        radius: [m] certified radii.
        used: [m] numbers of noisy samples.
        radii: radii at which certified accuracy is computed.
    """
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
    """Return the radii of a curve: the requested ones, or 101 evenly spaced ones.

    The evenly spaced ones end at the largest radius that n samples can prove.
    """
    if s.asked.radii:
        return np.array(s.asked.radii)
    most = bounds.lower(s.n, s.n, s.alpha)
    return np.linspace(0, float(bounds.radius(most, s.sigma, s.law)), _POINTS)
