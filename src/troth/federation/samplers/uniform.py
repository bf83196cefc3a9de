"""Every client with the same probability."""

from collections.abc import Callable

import numpy as np

from troth import seeding
from troth.federation.samplers import There, present


def uniform(
    seed: int, n: int, cohort: int, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """Draw `cohort` of the clients present uniformly, without replacement.

    The first present ones of a random order of all clients (that of `seeding.choose`):
    the law of drawing among those present. No more of the order is made than used, so
    that only drawn clients are looked at, and all only if too few are present to fill
    the cohort, which is then smaller.

    Args:
        seed: Seed of the experiment.
        n: Number of clients.
        cohort: Number of clients asked.
        there: Function (round, ids) → mask of clients present; None: all are.

    Returns:
        Round → ids, ascending.

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
