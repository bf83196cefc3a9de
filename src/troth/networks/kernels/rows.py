"""Sums of rows and of their squares in float64, and rows minus a vector.

For the sums, torch would first copy the matrix to float64. For the difference, it would
read one number at a time. The plain code is in `troth.numerics` and
`troth.networks.fused`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from troth.networks.kernels import NARROW

_BLOCK, _STEPS = 2048, 8


@triton.jit
def _sums(
    rows, center, out, d, stride, parts, BLOCK: tl.constexpr, STEPS: tl.constexpr
) -> None:
    """Sum a part of one row."""
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = (tl.program_id(0) % parts).to(tl.int64)
    rows += row * stride
    middle = tl.load(center + row).to(tl.float64)
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    squares = tl.zeros((BLOCK,), dtype=tl.float64)
    for k in range(STEPS):
        i = (part * STEPS + k) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(rows + i, mask=i < d, other=0.0).to(tl.float64) - middle
        x = tl.where(i < d, x, 0.0)
        total += x
        squares += x * x
    place = out + (row * parts + part) * 2
    tl.store(place, tl.sum(total, axis=0))
    tl.store(place + 1, tl.sum(squares, axis=0))


@triton.jit
def _whole(parts, out, count, WIDE: tl.constexpr) -> None:
    """Add the sums of all parts of a row."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, WIDE)
    place = parts + (row * count + k) * 2
    tl.store(out + row * 2, tl.sum(tl.load(place, mask=k < count, other=0.0), axis=0))
    squares = tl.load(place + 1, mask=k < count, other=0.0)
    tl.store(out + row * 2 + 1, tl.sum(squares, axis=0))


@triton.jit
def _minus(rows, w, out, d, count, BLOCK: tl.constexpr) -> None:
    """Subtract w from a block of the numbers of all rows, BLOCK ≤ d of them."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    i = first + tl.arange(0, BLOCK)
    j = (first % d).to(tl.int32) + tl.arange(0, BLOCK)
    j = tl.where(j >= d, j - d, j)  # a block may reach into the next row
    x = tl.load(rows + i, mask=i < count, other=0.0)
    tl.store(out + i, x - tl.load(w + j), mask=i < count)


def fits(rows: Tensor) -> bool:
    """Return whether the kernel can be used for this matrix."""
    return rows.dtype in NARROW


def sums(rows: Tensor, center: Tensor) -> Tensor:
    """Return Σ_j(x_ij − c_i) and Σ_j(x_ij − c_i)² for each row i of [n, d].

    The center c is [n]. The result is [n, 2] in float64.
    """
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    n, d = rows.shape
    parts = triton.cdiv(d, _BLOCK * _STEPS)
    if n * d == 0:
        return rows.new_zeros(n, 2, dtype=torch.float64)
    some = rows.new_empty(n, parts, 2, dtype=torch.float64)
    out = rows.new_empty(n, 2, dtype=torch.float64)
    launch: Any = _sums[n * parts,]
    launch(rows, center.contiguous(), some, d, rows.stride(0), parts, _BLOCK, _STEPS)
    together: Any = _whole[n,]
    together(some, out, parts, triton.next_power_of_2(parts))
    return out


def spans(rows: Tensor, w: Tensor) -> bool:
    """Return whether `minus` takes these rows and this vector."""
    same = rows.dtype == w.dtype and rows.dtype in NARROW
    return same and rows.is_contiguous() and _BLOCK <= len(w) < 2**30


def minus(rows: Tensor, w: Tensor) -> Tensor:
    """Subtract w [d] from each row of [n, d]."""
    out = torch.empty_like(rows)
    if rows.numel():
        launch: Any = _minus[triton.cdiv(rows.numel(), _BLOCK),]
        launch(rows, w.contiguous(), out, len(w), rows.numel(), _BLOCK)
    return out
