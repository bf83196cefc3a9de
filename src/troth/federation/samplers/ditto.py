"""The sampler of the Ditto authors' code.

References: li2021ditto.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from troth.federation.samplers import There, present


def ditto(
    cohort: int, size: np.ndarray, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """Sample the same clients, in the same order, as the code of Ditto's authors.

    That code draws clients with probabilities proportional to their numbers of
    examples. It sets numpy's seed to the number of the round + 4, whatever the seed of
    the run. (With an attack, the accuracy after the last round depends on which clients
    were sampled in the last few rounds.)

    Args:
        cohort: Number of clients sampled per round. Clients without examples are not
            sampled.
        size: [n] number of training examples of each client.
        there: Function (round, ids) → mask of the clients that are present. `None` if
            every client is always present.

    Returns:
        Function from the number of a round to the ids of its cohort, in the order of
        the authors' code.

    Example:
        >>> ditto(2, np.array([1, 1, 8]))(0).tolist()
        [2, 1]
    """
    share, cohort = size / size.sum(), min(cohort, int((size > 0).sum()))
    exactly = share.tobytes()
    return lambda r: present(there, r, _chosen(r, cohort, exactly).copy())


@lru_cache(maxsize=64)
def _chosen(r: int, cohort: int, share: bytes) -> np.ndarray:
    """Draw the cohort of a round; a cache serves all runs that are trained together."""
    p, random = np.frombuffer(share), np.random.RandomState(r + 4)
    return random.choice(len(p), cohort, replace=False, p=p)
