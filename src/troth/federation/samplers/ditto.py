"""The cohorts of the Ditto authors' code.

References: li2021ditto.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from troth.federation.samplers import There, present


def ditto(
    cohort: int, size: np.ndarray, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """Ask the same clients in a round as the Ditto authors' code, in the same order.

    That code draws clients in proportion to their sizes, with numpy's seed set to
    round + 4, not the run's. After an attack, the accuracy of the last round depends in
    part on which clients were asked in the last few rounds.

    Args:
        cohort: Number of clients asked, of those that have examples.
        size: [n] number of training examples of each client.
        there: Function (round, ids) → mask of clients present; None: all are.

    Returns:
        Round → ids, in the order of the code.

    Example:
        >>> ditto(2, np.array([1, 1, 8]))(0).tolist()
        [2, 1]
    """
    share, cohort = size / size.sum(), min(cohort, int((size > 0).sum()))
    exactly = share.tobytes()
    return lambda r: present(there, r, _chosen(r, cohort, exactly).copy())


@lru_cache(maxsize=64)
def _chosen(r: int, cohort: int, share: bytes) -> np.ndarray:
    """Draw the cohort of a round; once for all runs that are trained together."""
    p, random = np.frombuffer(share), np.random.RandomState(r + 4)
    return random.choice(len(p), cohort, replace=False, p=p)
