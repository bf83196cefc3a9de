"""Standard deviation over clients.

References: li2021ditto.
"""

import numpy as np

from troth.evaluation.metrics import defined


def std(values: np.ndarray) -> float:
    """Measure the spread over clients: √(Σ_k (x_k − mean)² / n), the population's.

    Over benign clients this is *fairness* (Ditto, Definition 2): of two models the one
    with the smaller spread of test losses is the fairer. The paper's tables show the
    spread of accuracies. The clients are the whole network and not a sample of one, so
    the sum is divided by n, as by the authors' np.var.

    Args:
        values: One number per client; NaN are left out.

    Returns:
        The spread, 0 if all clients are served alike; NaN without a value or if one of
        them is infinite.

    Example:
        >>> std(np.array([1.0, 3.0]))
        1.0
    """
    x = defined(values)
    with np.errstate(invalid="ignore", over="ignore"):
        return float(x.std(ddof=0)) if x.size else float("nan")
