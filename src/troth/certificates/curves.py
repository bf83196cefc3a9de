"""Certified accuracy over radii, client by client.

References: zhai2020macer.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from troth.certificates import bounds
from troth.certificates.record import certified
from troth.certificates.smoothing import Smoothing

_POINTS = 101


class Curves(NamedTuple):
    """Certified accuracy at every radius, one row per client, and its summaries."""

    radii: np.ndarray  # [r]
    clients: np.ndarray  # [n] ids
    examples: np.ndarray  # [n] how many of each
    accuracy: np.ndarray  # [n, r] share that is right and certified at a radius
    acr: np.ndarray  # [n] mean over all examples of radius·1[right]: area under a curve
    acr_right: np.ndarray  # [n] mean radius of those that are right; NaN: none is
    abstained: np.ndarray  # [n] share without a class
    used: np.ndarray  # [n] mean samples of an example

    def summary(self) -> dict[str, Any]:
        """Return mean, spread and limits over clients; `std` measures unfairness.

        `acr` is the area under the curves (the paper's figure 5), `acr_right` the mean
        radius of correctly classified examples (its section 4.4): the paper calls both
        the average certified radius.
        """
        a, right = self.accuracy, self.acr_right[~np.isnan(self.acr_right)]
        return {
            "radii": self.radii,
            "mean": a.mean(axis=0),
            "std": a.std(axis=0),
            "min": a.min(axis=0),
            "max": a.max(axis=0),
            "acr": self.acr.mean(),
            "acr_std": self.acr.std(),
            "acr_right": right.mean() if len(right) else np.nan,
            "abstained": self.abstained.mean(),
            "used": np.average(self.used, weights=self.examples),
            "clients": {
                int(k): {
                    "examples": int(self.examples[i]),
                    "accuracy": a[i],
                    "acr": float(self.acr[i]),
                    "acr_right": float(self.acr_right[i]),
                }
                for i, k in enumerate(self.clients)
            },
        }


def curves(
    client: np.ndarray,
    y: np.ndarray,
    label: np.ndarray,
    radius: np.ndarray,
    used: np.ndarray,
    radii: ArrayLike,
) -> Curves:
    """Compute the curves of some certificates: arrays [m] of examples, and radii."""
    ids, wanted = np.unique(client), np.asarray(radii, dtype=np.float64)
    right = label == y
    held = certified(label, radius, wanted) & right[:, None]
    rows = [client == k for k in ids]

    def means(values: np.ndarray) -> np.ndarray:
        return np.array([values[mine].mean(axis=0) for mine in rows])

    none, own = np.array([np.nan]), [radius[mine & right] for mine in rows]
    only = np.array([(one if len(one) else none).mean() for one in own])
    size = np.array([mine.sum() for mine in rows])
    areas = means(radius * right)
    return Curves(
        wanted, ids, size, means(held), areas, only, means(label < 0), means(used)
    )


def grid(s: Smoothing) -> np.ndarray:
    """Return radii for a curve: those asked about, else evenly up to the largest."""
    if s.asked.radii:
        return np.array(s.asked.radii)
    most = bounds.lower(s.n, s.n, s.alpha)
    return np.linspace(0, float(bounds.radius(most, s.sigma, s.law)), _POINTS)
