"""The mean around the median.

References: xie2018generalized.
"""

from torch import Tensor

from troth.server.aggregators import _around
from troth.server.aggregators.mean import mean
from troth.server.rules import Count, count
from troth.types import Messages


def meamed(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Tensor:
    """The mean, in every coordinate, of the n − f values closest to its median.

    On even counts the median is the mean of the middle two. Where one place is left
    and two values are equally far from the median, below and above, half of each is
    taken: then neither the order of the rows nor the sign of the coordinate matters.

    Guarantee: with 2f < n and at most f rows hostile, no value farther from the median
    than the farthest benign one counts, and the median lies within the benign range.

    Departs: the paper leaves such ties open.

    Args:
        messages: of the round.
        f: rows that may be hostile; 0 is the mean.
        strict: refuse 2f ≥ n; false keeps at least the one closest value.
    """
    n = len(messages.update)
    f = count("meamed", f, n, (2, 1), strict)
    if f == 0:
        return mean(messages)
    return _around.median(messages.update, max(1, n - f))
