"""Krum's scores, for the three rules that are built on them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from troth import numerics

Neighbors = Literal["blanchard", "byzfl"]
"""How many of the nearest others a score adds up: n − f − 2 (the paper, and the Ditto
authors' code) or n − f − 1 (the package byzfl)."""

_FEWER = {"blanchard": 2, "byzfl": 1}


def best(between: Tensor, f: int, neighbors: Neighbors, m: int) -> Tensor:
    """[m] the rows with the lowest scores; of equal ones, those that come first.

    Args:
        between: [n, n] squared distances.
        f: rows that may be hostile.
        neighbors: how the nearest others are counted.
        m: how many rows.
    """
    others = len(between) - f - _FEWER[neighbors]
    return scores(nearest(between)[0], others).sort(stable=True).indices[:m]


def nearest(between: Tensor) -> tuple[Tensor, Tensor]:
    """[n, n] distances of each row from the nearest to the farthest, and whose.

    The row itself comes last, infinitely far: it is no neighbour of its own.
    """
    apart = between.clone().fill_diagonal_(torch.inf)
    found = apart.sort(dim=1, stable=True)
    return found.values, found.indices


def scores(near: Tensor, others: int) -> Tensor:
    """[n] sums over the nearest others; all 0 where none of them counts."""
    count = max(0, min(others, near.shape[1] - 1))
    return numerics.level(near[:, :count].sum(dim=1))
