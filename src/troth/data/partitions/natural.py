r"""The natural clients of a data set: writers, hospitals, sensors.

References: caldas2018leaf.
"""

import numpy as np

from troth.data.partitions._homes import owners
from troth.types import Arrays


def natural(arrays: Arrays) -> list[np.ndarray]:
    """Make one client per owner, as the data set names them (LEAF).

    Client k is the k-th owner in sorted order. Its examples keep their order.

    Args:
        arrays: Data that name the owner of each example.
    """
    owner = owners("natural", arrays)
    order = np.argsort(owner, kind="stable")
    borders = np.flatnonzero(np.diff(owner[order])) + 1
    return np.split(order, borders)
