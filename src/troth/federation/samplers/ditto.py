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
    """Ask the very clients that the Ditto authors' code asks in a round, in its order.

    It draws by size and seeds numpy with the round + 4, whatever the seed of the run.
    The accuracy after the last round of an attack depends in part on who was asked in
    the last few.

    Args:
        cohort: how many are asked, of those that have examples.
        size: [n] how many training examples each has.
        there: who is present in a round; absent clients leave a smaller cohort.

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
