"""Values around a center, a block of columns at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor

from troth import numerics


def median(rows: Tensor, kept: int) -> Tensor:
    """Average, in every column [d], the `kept` values closest to its median."""
    mean = torch.empty_like(rows[0])
    for block, column in numerics.sorted_blocks(rows):
        mean[block] = _closest(column, kept)
    return mean


def _closest(column: Tensor, kept: int) -> Tensor:
    """Average the middle values of a sorted [n, columns], which it overwrites.

    Those in the middle are among the closest, and of each pair (i-th lowest, i-th after
    the first `kept`) the closer one, or half of each. Distances are from the lower and
    the upper of the middle two: exact where values are nearly equal.
    """
    edge = max(0, (len(column) - 2 * kept + 1) // 2)  # never among the closest
    column = column[edge : len(column) - edge]
    n = len(column)
    least, most = column[0].clone(), column[-1].clone()
    low, high = column[: n - kept].double(), column[kept:].double()
    below, above = column[(n - 1) // 2] - low, high - column[n // 2]
    closer = torch.where(below < above, low, high)
    column[: n - kept] = torch.where(below == above, low / 2 + high / 2, closer)
    middle = numerics.average(column[:kept], torch.float64)
    return middle.to(column.dtype).clamp(least, most)


def blocks(rows: Tensor, center: Tensor) -> Iterator[Tensor]:
    """Yield rows − center, [n, columns], block by block, in the wider type of both."""
    for block in numerics.blocks(rows):
        yield rows[:, block] - center[block]


def moved(center: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
    """Return center + Σ_i weight_i·(rows_i − center), by sums in float64."""
    middle = center.double()
    weight = weight.to(middle)
    result = rows.new_empty(rows.shape[1])
    for block in numerics.blocks(rows):  # a list of parts would scatter the memory
        away = rows[:, block] - middle[block]
        result[block] = (middle[block] + weight @ away).to(rows.dtype)
    return result
