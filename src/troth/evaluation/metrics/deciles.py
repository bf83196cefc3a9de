"""The deciles of a score over the clients."""

import numpy as np

from troth.evaluation.metrics import defined


def deciles(values: np.ndarray) -> list[float]:
    """Return the quantiles 0, 1/10, …, 1 of the clients' values.

    Quantile q is at position q(n − 1) of the n sorted values, counted from 0. Between
    two positions, values are interpolated linearly, as in `numpy.quantile`.

    Departs: positions are computed exactly, as whole numbers of tenths. So a decile at
    the position of one value equals this value, even if the next value is infinite.

    Args:
        values: One value per client; NaN is left out.

    Returns:
        Eleven numbers in ascending order; all NaN if no client has a value.

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
