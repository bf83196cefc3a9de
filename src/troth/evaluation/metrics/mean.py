"""Average over clients.

References: li2021ditto.
"""

import numpy as np

from troth.evaluation.metrics import defined


def mean(values: np.ndarray) -> float:
    """Average over clients, each counted once: Σ_k x_k / n.

    Over benign clients this is *robustness* (Ditto, Definition 1): the model with the
    higher mean test performance after an attack is the more robust one.

    Args:
        values: One number per client; NaN are left out.

    Returns:
        The average; NaN without a value, infinite if one of them is.

    Example:
        >>> mean(np.array([0.5, 1.0, np.nan]))
        0.75
    """
    x = defined(values)
    with np.errstate(invalid="ignore", over="ignore"):
        return float(x.mean()) if x.size else float("nan")
