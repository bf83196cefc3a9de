"""Sampling in proportion to the clients' numbers of examples."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch

from troth import seeding
from troth.federation.samplers import There, present


def size(
    seed: int, cohort: int, size: np.ndarray, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """Draw clients with probabilities proportional to numbers of examples.

    The clients that are present are drawn without replacement, with the distribution of
    numpy's `choice` for p ∝ size. The function draws with replacement until there are
    enough different clients. If too many clients repeat, it chooses the remaining ones
    by exponential random numbers, with the same distribution. Only then does the time
    grow with the number of all clients.

    Args:
        seed: Seed of the experiment.
        cohort: Number of clients sampled per round. If fewer are present, all of these
            are sampled.
        size: [n] number of training examples of each client.
        there: Function (round, ids) → mask of the clients that are present. `None` if
            every client is always present.

    Returns:
        Function from the number of a round to the sorted ids of its cohort.

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
            count = 2 * cohort << (i if there else 0)  # draw more if few may be present
            u = _uniform(seed, r, i, count)
            drawn = np.searchsorted(edges, u * edges[-1], side="right")
            asked += present(there, r, drawn).tolist()
            asked = list(dict.fromkeys(asked))[:cohort]  # without repeated ids
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
    """Draw numbers in [0, 1); a cache serves all runs that are trained together."""
    key = seeding.key(seed, "cohort", r, i)
    return np.asarray(seeding.uniform(key, count, torch.float64))
