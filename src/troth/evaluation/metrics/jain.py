"""Jain's index of fairness.

References: jain1984quantitative.
"""

import numpy as np

from troth.evaluation.metrics import defined


def jain(values: np.ndarray) -> float:
    """Compute Jain's index, (Σ_k x_k)² / (n Σ_k x_k²), of n values x_k.

    For values ≥ 0, the index is between 1/n and 1. It is 1/n if only one client's value
    is not 0, and 1 if all values are equal. The index does not depend on the unit of
    the values.

    Args:
        values: One value per client; NaN is left out.

    Returns:
        The index; 1 if all values are 0. NaN if no client has a value or a value is
        infinite.

    Example:
        >>> jain(np.array([0.0, 0.0, 0.0, 8.0]))
        0.25
    """
    x = defined(values)
    if not x.size:
        return float("nan")
    largest = np.abs(x).max()
    if largest == 0:
        return 1.0
    with np.errstate(invalid="ignore"):
        x = x / largest  # squares of tiny values would be 0
        return float(x.sum() ** 2 / (x.size * (x @ x)))
