"""Rows times factors and rows mixed with rows, in double precision by columns.

So nothing overflows or vanishes that the result can hold, and little memory is needed.
"""

import torch
from torch import Tensor

from troth import numerics


def scaled(factor: Tensor, rows: Tensor) -> Tensor:
    """Return [n, d]: row i times factor_i; a factor of 1 keeps its row bit for bit."""
    result = torch.empty_like(rows)
    for block in numerics.blocks(rows):
        result[:, block] = rows[:, block] * factor[:, None]
    return result


def mixed(weight: Tensor, rows: Tensor) -> Tensor:
    """Return [m, d]: Σ_j weight_ij·rows_j for weights [m, n]."""
    result = rows.new_empty(len(weight), rows.shape[1])
    for block in numerics.blocks(rows):
        result[:, block] = weight @ rows[:, block].double()
    return result
