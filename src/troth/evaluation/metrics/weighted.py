"""Average over examples."""

import numpy as np

from troth.evaluation.metrics import defined


def weighted(values: np.ndarray, size: np.ndarray) -> float:
    """Average over examples: Σ_k m_k x_k / Σ_k m_k, for m_k examples of client k.

    With the sizes of the test sets, the accuracy on all test examples pooled.

    Args:
        values: One number per client; NaN are left out, with their size.
        size: Number of examples of each client; a client with 0 does not count.

    Returns:
        The average; NaN without an example.

    Example:
        >>> weighted(np.array([0.5, 1.0]), np.array([30, 10]))
        0.625
    """
    x = defined(values)
    m = defined(np.where(np.isnan(values), np.nan, size))
    x, m = x[m > 0], m[m > 0]  # so that 0 examples of an infinite loss are nothing
    with np.errstate(invalid="ignore", over="ignore"):
        return float(m @ x / m.sum()) if m.size else float("nan")
