"""In proportion to the examples that clients have."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch

from troth import seeding
from troth.federation.samplers import There, present


def size(
    seed: int, cohort: int, size: np.ndarray, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """Draw clients in proportion to their sizes, without replacement.

    One after another, by numpy's law of `choice` with p ∝ size, among those present.
    Draws with replacement are repeated until enough clients are distinct; where many
    come twice, a race of exponentials decides the rest (the same law). Only drawn
    clients are looked at, but for that race.

    Args:
        seed: Seed of the experiment.
        cohort: Number of clients asked; fewer, if fewer are present.
        size: [n] number of training examples of each client.
        there: Function (round, ids) → mask of clients present; None: all are.

    Returns:
        Round → ids, ascending.

    Example:
        >>> draw = size(seed=0, cohort=2, size=np.array([1, 1, 8]))
        >>> draw(0).tolist()
        [1, 2]
    """
    n, edges = len(size), np.cumsum(size.astype(np.float64))
    if cohort >= n:
        return lambda r: present(there, r, np.arange(n))

    def draw(r: int) -> np.ndarray:
        asked: list[int] = []
        for i in range(0 if 2 * cohort > n else 8):
            count = 2 * cohort << (i if there else 0)  # more, where few may be there
            u = _uniform(seed, r, i, count)
            drawn = np.searchsorted(edges, u * edges[-1], side="right")
            asked += present(there, r, drawn).tolist()
            asked = list(dict.fromkeys(asked))[:cohort]  # drawn twice counts once
            if len(asked) == cohort:
                return np.sort(np.array(asked))
            if count > n:
                break
        ids = present(there, r, np.arange(n))
        key = seeding.keys(seed, "race", r, torch.from_numpy(ids))
        u = seeding.uniform(key, 1, torch.float64)[:, 0].numpy()
        with np.errstate(divide="ignore"):
            times = -np.log(u) / size[ids]
        times[np.isin(ids, asked)] = -1.0
        return np.sort(ids[np.argsort(times, kind="stable")[:cohort]])

    return draw


@lru_cache(maxsize=64)
def _uniform(seed: int, r: int, i: int, count: int) -> np.ndarray:
    """Draw numbers in [0, 1); once for all runs of a seed that are trained together."""
    key = seeding.key(seed, "cohort", r, i)
    return np.asarray(seeding.uniform(key, count, torch.float64))
