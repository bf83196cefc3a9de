"""Rows times factors and rows mixed with rows, in double precision by columns.

So nothing overflows or vanishes that the result can hold, and little memory is needed.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from troth import numerics


def scaled(factor: Tensor, rows: Tensor) -> Tensor:
    """Return [n, d]: row i times factor_i; a factor of 1 keeps its row bit for bit."""
    found = torch.empty_like(rows)
    for part, there in blocks(rows, found):
        there.copy_(part * factor[:, None])
    return found


def mixed(weight: Tensor, rows: Tensor) -> Tensor:
    """Return [m, d]: Σ_j weight_ij·rows_j for weights [m, n]."""
    found = rows.new_empty(len(weight), rows.shape[1])
    for part, there in blocks(rows, found):
        there.copy_(weight @ part.double())
    return found


def blocks(rows: Tensor, found: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield blocks of columns of the input and of the result."""
    for block in numerics.blocks(rows):
        yield rows[:, block], found[:, block]
