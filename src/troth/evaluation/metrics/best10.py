"""Average over the tenth of the clients with the best values.

References: li2020fair.
"""

import numpy as np

from troth.evaluation.metrics.worst10 import worst10


def best10(values: np.ndarray, higher_is_better: bool = True) -> float:
    """Average over the ⌈n/10⌉ best of n clients (q-FFL: Li et al. 2020, Table 1).

    Args:
        values: One value per client. Clients with NaN are left out first.
        higher_is_better: Whether the best values are the highest (an accuracy) or the
            lowest (a loss, an error).

    Returns:
        The average; NaN if no client has a value.

    Example:
        >>> best10(np.array([0.5, 0.7, 0.9]))
        0.9
    """
    return worst10(values, not higher_is_better)
