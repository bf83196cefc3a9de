"""Rows as seen from a point, a block of columns at a time."""

from collections.abc import Iterator

from torch import Tensor

from troth import numerics


def blocks(rows: Tensor, center: Tensor) -> Iterator[Tensor]:
    """Yield rows − center, [n, columns], block by block, in the wider type of both."""
    for block in numerics.blocks(rows):
        yield rows[:, block] - center[block]


def moved(center: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
    """Return center + Σ_i weight_i·(rows_i − center), in the rows' own precision.

    Sums are in float64: a far row counts in full, however small its weight.
    """
    middle = center.double()
    weight = weight.to(middle)
    result = rows.new_empty(rows.shape[1])
    for block in numerics.blocks(rows):  # a list of parts would scatter the memory
        away = rows[:, block] - middle[block]
        result[block] = (middle[block] + weight @ away).to(rows.dtype)
    return result
