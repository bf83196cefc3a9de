"""Numerical pieces that several rules share, written so that they stay stable."""

from __future__ import annotations

from torch import Tensor


def median(rows: Tensor) -> Tensor:
    """Coordinate-wise median of [n, d]; the mean of the two middle values if n is even.

    `torch.median` gives the lower of the two, hence the second look from above.
    """
    lower = rows.median(dim=0).values
    if rows.shape[0] % 2:
        return lower
    upper = -((-rows).median(dim=0).values)
    return (lower / 2 + upper / 2).clamp(lower, upper)
