"""Standard deviation over clients.

References: li2021ditto.
"""

import numpy as np

from troth.evaluation.metrics import defined


def std(values: np.ndarray) -> float:
    """Compute the population standard deviation: √(Σ_k (x_k − mean)² / n).

    Over the benign clients, this measures *fairness* (Ditto, Definition 2): of two
    models, the one with the smaller spread of test losses is fairer. The paper's tables
    have the spread of accuracies. The sum is divided by n, as by np.var in the authors'
    code, because the clients are the whole federation and not a sample.

    Args:
        values: One value per client; NaN is left out.

    Returns:
        The standard deviation; 0 if all clients have the same value. NaN if no client
        has a value or a value is infinite.

    Example:
        >>> std(np.array([1.0, 3.0]))
        1.0
    """
    x = defined(values)
    with np.errstate(invalid="ignore", over="ignore"):
        return float(x.std(ddof=0)) if x.size else float("nan")
