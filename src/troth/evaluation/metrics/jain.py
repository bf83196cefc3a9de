"""Jain's index of fairness.

References: jain1984quantitative.
"""

import numpy as np

from troth.evaluation.metrics import defined


def jain(values: np.ndarray) -> float:
    """Compute Jain's index, (Σ_k x_k)² / (n Σ_k x_k²).

    For values ≥ 0 it lies between 1/n, where one client has everything, and 1, where
    all have the same; it does not change with the unit of the values.

    Args:
        values: One number per client; NaN are left out.

    Returns:
        The index, 1 if all values are 0; NaN without a value or if one is infinite.

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
        x = x / largest  # or tiny values would square to 0
        return float(x.sum() ** 2 / (x.size * (x @ x)))
