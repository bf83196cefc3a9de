"""Average over examples."""

import numpy as np

from troth.evaluation.metrics import defined


def weighted(values: np.ndarray, size: np.ndarray) -> float:
    """Average over examples: Σ_k m_k x_k / Σ_k m_k, where client k has m_k examples.

    With accuracies and the sizes of the test sets, this is the accuracy on the pooled
    test examples of all clients.

    Args:
        values: One value x_k per client. Clients with NaN are left out.
        size: Number of examples m_k of each client. Clients without any are left out.

    Returns:
        The average; NaN if no examples are left.

    Example:
        >>> weighted(np.array([0.5, 1.0]), np.array([30, 10]))
        0.625
    """
    x = defined(values)
    m = defined(np.where(np.isnan(values), np.nan, size))
    x, m = x[m > 0], m[m > 0]  # 0 · infinity would be NaN
    with np.errstate(invalid="ignore", over="ignore"):
        return float(m @ x / m.sum()) if m.size else float("nan")
