"""Average over the tenth of the clients with the worst values.

References: li2020fair.
"""

import numpy as np

from troth.evaluation.metrics import defined


def worst10(values: np.ndarray, higher_is_better: bool = True) -> float:
    """Average over the ⌈n/10⌉ worst of n clients (q-FFL: Li et al. 2020, Table 1).

    Args:
        values: One value per client. Clients with NaN are left out first.
        higher_is_better: Whether the worst values are the lowest (an accuracy) or the
            highest (a loss, an error).

    Returns:
        The average; NaN if no client has a value.

    Example:
        >>> worst10(np.array([0.5, 0.7, 0.9]))
        0.5
    """
    x = np.sort(defined(values))
    if not x.size:
        return float("nan")
    tenth = -(-x.size // 10)
    with np.errstate(invalid="ignore", over="ignore"):
        return float((x[:tenth] if higher_is_better else x[-tenth:]).mean())
