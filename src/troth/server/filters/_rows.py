"""Rows times factors and rows mixed with rows, in double precision by columns.

So nothing overflows or vanishes on the way that the result can hold, and extra memory
stays small beside the matrix.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from troth import numerics


def scaled(factor: Tensor, rows: Tensor) -> Tensor:
    """[n, d]: row i times factor_i; a factor of 1 keeps its row bit for bit."""
    found = torch.empty_like(rows)
    for part, there in blocks(rows, found):
        there.copy_(part * factor[:, None])
    return found


def mixed(weight: Tensor, rows: Tensor) -> Tensor:
    """[m, d]: Σ_j weight_ij·rows_j for weights [m, n]."""
    found = rows.new_empty(len(weight), rows.shape[1])
    for part, there in blocks(rows, found):
        there.copy_(weight @ part.double())
    return found


def blocks(rows: Tensor, found: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Columns of what is read, and of where the result goes."""
    for block in numerics.blocks(rows):
        yield rows[:, block], found[:, block]
