"""The mean of the values nearest to the median, in every coordinate.

References: xie2018generalized.
"""

from torch import Tensor

from troth.server.aggregators import _around
from troth.server.aggregators.mean import mean
from troth.server.rules import Count, count
from troth.types import Messages


def meamed(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Tensor:
    """Average, in every coordinate, the n − f values closest to the median.

    n is the number of updates. If n is even, the median is the mean of the middle two
    values. If two values are equally far from the median and only one is needed, their
    mean is taken. So the result depends neither on the order of the updates nor on the
    sign of a coordinate.

    Guarantee: if 2f < n and at most f updates are malicious, the median lies within the
    range of the benign values. No averaged value is farther from the median than the
    farthest benign value is.

    Departs: the paper does not say what happens with equally distant values.

    Args:
        messages: Messages of n clients, with one update each.
        f: Number of malicious updates to withstand; 0 gives the mean. "auto" means the
            expected number of malicious clients in a cohort, rounded down.
        strict: Whether to raise Refusal if 2f ≥ n. If false, there is no guarantee for
            such n, and at least the closest value is kept.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> troth.aggregate("meamed", torch.tensor([[1.0], [2.0], [9.0]]), f=1)
        tensor([1.5000])
    """
    n = len(messages.update)
    f = count("meamed", f, n, (2, 1), strict)
    if f == 0:
        return mean(messages)
    return _around.median(messages.update, max(1, n - f))
