"""Random shares of sizes that the experiment gives."""

import numpy as np

from troth import seeding
from troth.data.partitions._homes import check_sizes
from troth.types import Arrays


def fixed_sizes(arrays: Arrays, seed: int, *, sizes: list[int]) -> list[np.ndarray]:
    """Divide the data into random shares of given sizes; no example is shared.

    The examples are shuffled. Client k gets the next sizes[k] of them. The rest is left
    out. Clients of the partition 'draws' may share examples, and these do not.

    Args:
        arrays: Data to divide.
        seed: Seed of the experiment.
        sizes: Number of examples of each client.
    """
    check_sizes(sizes, len(arrays.y))
    order = seeding.generator(seed, "partition").permutation(len(arrays.y))
    return [np.sort(part) for part in np.split(order, np.cumsum(sizes))[:-1]]
