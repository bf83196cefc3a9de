"""Sampling with equal probabilities."""

from collections.abc import Callable

import numpy as np

from troth import seeding
from troth.federation.samplers import There, present


def uniform(
    seed: int, n: int, cohort: int, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """Draw clients that are present with equal probability, without replacement.

    The function takes the first present clients of a random order of all clients (that
    of `seeding.choose`). This has the same distribution as drawing among the clients
    that are present. Only the needed part of the order is computed, so the cost grows
    with the cohort. The whole order is computed only if fewer than `cohort` clients are
    present.

    Args:
        seed: Seed of the experiment.
        n: Number of clients.
        cohort: Number of clients sampled per round. If fewer are present, all of these
            are sampled.
        there: Function (round, ids) → mask of the clients that are present. `None` if
            every client is always present.

    Returns:
        Function from the number of a round to the sorted ids of its cohort.

    Example:
        >>> draw = uniform(seed=0, n=10, cohort=3)
        >>> draw(0).tolist(), draw(1).tolist()
        ([0, 2, 7], [1, 4, 9])
    """
    if cohort >= n:
        return lambda r: present(there, r, np.arange(n))

    def draw(r: int) -> np.ndarray:
        key = seeding.key(seed, "cohort", r).numpy()[None]
        asked, last = np.zeros(0, np.int64), 0
        while len(asked) < cohort and last < n:
            first, last = last, min(n, 2 * last or cohort)
            drawn = seeding.permute(key, np.arange(first, last), np.array([n]))
            asked = np.append(asked, present(there, r, drawn))
        return np.sort(asked[:cohort])

    return draw
