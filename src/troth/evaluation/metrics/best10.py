"""Average over the best-served tenth of the clients.

References: li2020fair.
"""

import numpy as np

from troth.evaluation.metrics.worst10 import worst10


def best10(values: np.ndarray, higher_is_better: bool = True) -> float:
    """Average over the ⌈n/10⌉ clients that are served best (q-FFL, Table 1).

    Args:
        values: One value per client. NaN is left out before the best tenth is taken.
        higher_is_better: Whether the best clients are those with the highest values (an
            accuracy) or with the lowest (a loss, an error).

    Returns:
        The average; NaN if no client has a value.

    Example:
        >>> best10(np.array([0.5, 0.7, 0.9]))
        0.9
    """
    return worst10(values, not higher_is_better)
