"""Another sampler of the Ditto authors' code: a fixed number of malicious clients.

References: li2021ditto.
"""

from collections.abc import Callable

import numpy as np

from troth.federation.samplers import There, present


def ditto_fixed(
    cohort: int, size: np.ndarray, hostile: np.ndarray, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """Sample a fixed number of malicious clients in each round, and list them first.

    This is the code of Ditto's authors with `sampling` = 1. In each cohort, ⌊cohort ·
    fraction⌋ clients are malicious, where the fraction is that of malicious clients
    among all clients. Malicious and benign clients are drawn with probabilities in
    proportion to their numbers of examples, with numpy's seed set to the number of the
    round + 4. The published commands have `sampling` = 2, which is the sampler `ditto`.

    Args:
        cohort: Number of clients sampled per round.
        size: [n] number of training examples of each client.
        hostile: [n] mask of malicious clients.
        there: Function (round, ids) → mask of the clients that are present. `None` if
            every client is always present.

    Returns:
        Function from the number of a round to the ids of its cohort, with malicious
        clients first.

    Example:
        >>> malicious = np.array([True, True, False])
        >>> ditto_fixed(2, np.array([1, 1, 8]), malicious)(0).tolist()
        [1, 2]
    """
    some = size > 0
    groups = [np.flatnonzero(hostile & some), np.flatnonzero(~hostile & some)]
    bad = min(int(min(cohort, len(size)) * hostile.mean()), len(groups[0]))
    wanted = bad, min(cohort - bad, len(groups[1]))

    def draw(r: int) -> np.ndarray:
        random = np.random.RandomState(r + 4)
        drawn = [
            random.choice(ids, count, replace=False, p=size[ids] / size[ids].sum())
            for ids, count in zip(groups, wanted, strict=True)
            if count
        ]
        return present(there, r, np.concatenate(drawn))

    return draw
