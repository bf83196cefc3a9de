"""Averages of values around a center, computed in blocks of columns."""

from collections.abc import Iterator

import torch
from torch import Tensor

from troth import numerics


def median(rows: Tensor, kept: int) -> Tensor:
    """Return the mean of the `kept` values nearest to the median, for each column."""
    mean = torch.empty_like(rows[0])
    for block, column in numerics.sorted_blocks(rows):
        mean[block] = _closest(column, kept)
    return mean


def _closest(column: Tensor, kept: int) -> Tensor:
    """Average the k = `kept` values closest to the median of each sorted column.

    `column` is [n, columns] and is overwritten. The values in the middle are always
    among the closest. The other values are compared in pairs of the i-th lowest and the
    (k + i)-th lowest value. Of each pair, the closer value is taken, or the mean of
    both if they are equally close. Distances of low values are measured from the lower
    of the middle two values, those of high values from the upper one. This is exact
    even if values are nearly equal.
    """
    edge = max(0, (len(column) - 2 * kept + 1) // 2)  # to leave out at each end
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
    """Yield rows − center in blocks of columns, in the wider of the two dtypes."""
    for block in numerics.blocks(rows):
        yield rows[:, block] - center[block]


def moved(center: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
    """Return center + Σ_i weight_i·(rows_i − center), with sums in float64."""
    middle = center.double()
    weight = weight.to(middle)
    result = rows.new_empty(rows.shape[1])
    for block in numerics.blocks(rows):  # in place: parts would fragment the memory
        away = rows[:, block] - middle[block]
        result[block] = (middle[block] + weight @ away).to(rows.dtype)
    return result
