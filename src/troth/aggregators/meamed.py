"""The mean around the median.

@article{xie2018generalized,
  title={Generalized Byzantine-tolerant {SGD}},
  author={Xie, Cong and Koyejo, Oluwasanmi and Gupta, Indranil},
  journal={arXiv preprint arXiv:1802.10116}, year={2018}}
"""

from __future__ import annotations

import torch
from torch import Tensor

from troth import conditions, numerics
from troth.aggregators.mean import mean
from troth.types import Messages


def meamed(
    messages: Messages, *, f: conditions.Count = "auto", strict: bool = True
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
    f = conditions.number("meamed", f)
    n = len(messages.update)
    conditions.enough("meamed", n, f, 2 * f + 1, "n ≥ 2f + 1", strict)
    if f == 0:
        return mean(messages)
    kept = max(1, n - f)
    edge = max(0, (n - 2 * kept + 1) // 2)  # never among the closest (2f ≥ n alone)
    found = torch.empty_like(messages.update[0])
    for block, column in numerics.sorted_blocks(messages.update):
        found[block] = _around(column[edge : n - edge], kept)
    return found


def _around(column: Tensor, kept: int) -> Tensor:
    """The mean of the `kept` values closest to the median of a sorted [n, columns].

    They are neighbours in the order: the middle ones are among them for certain, and
    of each pair (i-th lowest, i-th after the first `kept`) the closer one is. Distances
    are from the lower and the upper of the middle two, which compares the same, and
    exactly where values are nearly equal.
    """
    n = len(column)
    low, high = column[: n - kept].double(), column[kept:].double()
    below, above = column[(n - 1) // 2] - low, high - column[n // 2]
    closer = torch.where(below < above, low, high)
    closer = torch.where(below == above, low / 2 + high / 2, closer)
    total = column[n - kept : kept].sum(dim=0, dtype=torch.float64)
    middle = ((total + closer.sum(dim=0)) / kept).to(column.dtype)
    return middle.clamp(column[0], column[-1])
