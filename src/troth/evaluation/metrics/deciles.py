"""The distribution over clients in eleven numbers."""

import numpy as np

from troth.evaluation.metrics import defined


def deciles(values: np.ndarray) -> list[float]:
    """Return the quantiles 0, 1/10, … 1 over clients, from the lowest to the highest.

    Between two clients the quantile is linear: with x sorted from x_0, quantile q lies
    at position q(n−1), as in `numpy.quantile`.

    Departs: positions are counted in whole tenths, so that a decile that falls on a
    client is exactly that client's value, and an infinite neighbor does not spoil it.

    Args:
        values: One number per client; NaN are left out.

    Returns:
        Eleven numbers that do not decrease; all NaN without a value.

    Example:
        >>> deciles(np.arange(11.0))[:4]
        [0.0, 1.0, 2.0, 3.0]
    """
    x = np.sort(defined(values))
    if not x.size:
        return [float("nan")] * 11
    position = np.arange(11) * (x.size - 1)
    low, part = position // 10, position % 10 / 10
    a, b = x[low], x[np.minimum(low + 1, x.size - 1)]
    with np.errstate(invalid="ignore"):
        between = (1 - part) * a + part * b
    return [float(v) for v in np.where((part == 0) | (a == b), a, between)]
