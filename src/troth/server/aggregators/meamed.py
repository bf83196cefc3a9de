"""The mean around the median.

References: xie2018generalized.
"""

from __future__ import annotations

import torch
from torch import Tensor

from troth import numerics
from troth.server import rules
from troth.server.aggregators import _around
from troth.server.aggregators.mean import mean
from troth.types import Messages


def meamed(
    messages: Messages, *, f: rules.Count = "auto", strict: bool = True
) -> Tensor:
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
    f = rules.number("meamed", f)
    n = len(messages.update)
    rules.enough("meamed", n, f, 2 * f + 1, "n ≥ 2f + 1", strict)
    if f == 0:
        return mean(messages)
    kept = max(1, n - f)
    found = torch.empty_like(messages.update[0])
    for block, column in numerics.sorted_blocks(messages.update):
        found[block] = _around.median(column, kept)
    return found
