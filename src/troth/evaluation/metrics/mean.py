"""Average over clients.

References: li2021ditto.
"""

import numpy as np

from troth.evaluation.metrics import defined


def mean(values: np.ndarray) -> float:
    """Average over clients with equal weights: Σ_k x_k / n.

    Over the benign clients, this measures *robustness* (Ditto, Definition 1): of two
    models, the one with the higher mean test performance after an attack is more
    robust.

    Args:
        values: One value per client; NaN is left out.

    Returns:
        The average. It is NaN if no client has a value, and infinite if a value is
        infinite.

    Example:
        >>> mean(np.array([0.5, 1.0, np.nan]))
        0.75
    """
    x = defined(values)
    with np.errstate(invalid="ignore", over="ignore"):
        return float(x.mean()) if x.size else float("nan")
