"""Average over the best-served tenth of the clients.

References: li2020fair.
"""

import numpy as np

from troth.evaluation.metrics.worst10 import worst10


def best10(values: np.ndarray, higher_is_better: bool = True) -> float:
    """Average over the ⌈n/10⌉ clients that are served best.

    «Best 10 %» in Table 1 of q-FFL: the worst tenth, judged the other way round.

    Args:
        values: One number a client; NaN are left out before the tenth is taken.
        higher_is_better: Whether the highest (an accuracy) or the lowest (a loss, an
            error) values are the best.

    Returns:
        The average; nan without a value.
    """
    return worst10(values, not higher_is_better)
