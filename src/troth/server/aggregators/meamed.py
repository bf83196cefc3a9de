"""The mean around the median.

References: xie2018generalized.
"""

from torch import Tensor

from troth.server.aggregators import _around
from troth.server.aggregators.mean import mean
from troth.server.rules import Count, count
from troth.types import Messages


def meamed(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Tensor:
    """Average, in every coordinate, the n − f values closest to its median.

    On even counts the median is the mean of the middle two. Where one place is left and
    two values are equally far from the median, half of each is taken: so neither the
    order of the rows nor the sign of a coordinate matters.

    Guarantee: with 2f < n and at most f malicious rows, no value farther from the
    median than the farthest benign one counts, and the median lies within the benign
    range.

    Departs: the paper leaves such ties open.

    Args:
        messages: One update per client.
        f: Number of rows that may be malicious; 0 is the mean.
        strict: Whether 2f ≥ n is refused; false keeps at least the one closest value.

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
