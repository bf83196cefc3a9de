r"""Random shares of equal size.

References: mcmahan2017communication.
"""

import numpy as np

from troth import seeding
from troth.data.partitions._homes import check_clients
from troth.types import Arrays


def iid(arrays: Arrays, seed: int, *, clients: int) -> list[np.ndarray]:
    """Divide the data into random equal shares (McMahan et al., section 3).

    All clients' data have the same distribution. The examples are shuffled and cut into
    shares whose sizes differ by at most 1.

    Args:
        arrays: Data to divide.
        seed: Seed of the experiment.
        clients: Number of clients; 1 is central training.
    """
    m = len(arrays.y)
    check_clients(clients, m)
    order = seeding.generator(seed, "partition").permutation(m)
    return [np.sort(share) for share in np.array_split(order, clients)]
