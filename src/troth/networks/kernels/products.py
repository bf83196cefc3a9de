"""Matrix products, one per client, whose bits do not depend on the number of clients.

In cuBLAS, the order of sums depends on the number of matrices, and so do the last
digits of results. These can decide whether a unit near 0 is active, or which of two
nearly equal units is larger. Here, the bits of a product do not depend on how many
products are computed at once. For small batches, the time is that of reading the
weights. The plain code is `torch.bmm`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from troth.networks.kernels import NARROW, input_precision, tile

_LONG = 2048  # number of terms of the longest sum that is not split
_SPARE = 8  # number of tiles above which sums are not split to keep the GPU busy
_ROWS = 65535  # CUDA's limit for the second axis of a grid
_NUMBERS = 2**31  # limit of 32-bit indices


@triton.jit
def _multiply(
    a,
    b,
    out,
    base,
    rates,
    by_a,
    by_b,
    by_out,
    by_base,
    by_rate,
    HIGH: tl.constexpr,
    DEEP: tl.constexpr,
    WIDE: tl.constexpr,
    AI: tl.constexpr,
    AK: tl.constexpr,
    BK: tl.constexpr,
    BJ: tl.constexpr,
    OI: tl.constexpr,
    VI: tl.constexpr,
    UA: tl.constexpr,
    UB: tl.constexpr,
    UO: tl.constexpr,
    UV: tl.constexpr,
    LENGTH: tl.constexpr,
    ADD: tl.constexpr,
    TI: tl.constexpr,
    TK: tl.constexpr,
    TJ: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """Compute a tile [TI, TJ] of one client's product, or a piece of LENGTH terms."""
    n = tl.program_id(1).to(tl.int64)
    across: tl.constexpr = (WIDE + TJ - 1) // TJ
    tiles: tl.constexpr = (HIGH + TI - 1) // TI * across
    part = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    i = tile // across * TI + tl.arange(0, TI)
    j = tile % across * TJ + tl.arange(0, TJ)
    a += n * by_a * UA  # the factor tells the compiler about alignment
    b += n * by_b * UB
    out += n * by_out * UO + part * HIGH * WIDE
    total = tl.zeros((TI, TJ), dtype=tl.float32)
    for first in range(0, LENGTH, TK):
        k = part * LENGTH + first + tl.arange(0, TK)
        left = a + i[:, None] * AI + k[None, :] * AK
        x = tl.load(left, mask=(i < HIGH)[:, None] & (k < DEEP)[None, :], other=0.0)
        right = b + k[:, None] * BK + j[None, :] * BJ
        y = tl.load(right, mask=(k < DEEP)[:, None] & (j < WIDE)[None, :], other=0.0)
        total = tl.dot(x, y.to(x.dtype), total, input_precision=PRECISION)
    place = out + i[:, None] * OI + j[None, :]
    there = (i < HIGH)[:, None] & (j < WIDE)[None, :]
    if ADD:
        rate = tl.load(rates + n * by_rate).to(tl.float32)
        near = base + n * by_base * UV + i[:, None] * VI + j[None, :]
        before = tl.load(near, mask=there, other=0.0)
        rounded = total.to(a.dtype.element_ty).to(tl.float32)  # as if it were stored
        total = before.to(tl.float32) + rate * rounded
    tl.store(place, total.to(out.dtype.element_ty), mask=there)


def fits(a: Tensor, b: Tensor) -> bool:
    """Return whether the kernel can be used for these matrices."""
    known = a.dtype in NARROW and b.dtype in (a.dtype, torch.float32)
    if not known or 0 in (*a.shape, *b.shape):
        return False
    far = [m.shape[1] * m.stride(1) + m.shape[2] * m.stride(2) for m in (a, b)]
    return len(a) <= _ROWS and max(*far, a.shape[1] * b.shape[2]) < _NUMBERS


def multiply(a: Tensor, b: Tensor, exact: bool = False) -> Tensor:
    """Multiply [n, i, k] × [n, k, j] → [n, i, j]; if `exact`, without TF32.

    The result has the dtype of a. If b is float32, it is rounded to the dtype of a.
    """
    (n, i, k), j = a.shape, b.shape[2]
    parts = _parts(i, k, j)
    if parts == 1:
        out = a.new_empty(n, i, j)
        _launch(a, b, out, None, exact)
        return out
    some = a.new_empty(n, parts, i * j, dtype=torch.float32)
    _launch(a, b, some.view(n, parts, i, j), None, exact)
    out, ones = some.new_empty(n, 1, i * j), some.new_ones(1).expand(n, 1, parts)
    _launch(ones, some, out, None, exact=True)
    return out.view(n, i, j).to(a.dtype)


def add_product(
    out: Tensor, a: Tensor, b: Tensor, rate: Tensor, base: Tensor | None = None
) -> None:
    """Write base + rate·(a × b) to `out`, [n, i, j]; by default, `base` is `out`.

    The product is rounded to the dtype of a, so that the result has the same bits as if
    the product were stored first. `rate` has one number, or one per client. The last
    axes of `out` and of `base` must be contiguous. A base that all clients share is
    expanded.
    """
    _launch(a, b, out, rate.reshape(-1).expand(len(a)), base=base)


def _parts(i: int, k: int, j: int) -> int:
    """Return the number of pieces into which sums are split.

    Long sums are split if there are few tiles to compute in parallel.
    """
    ti, _, tj = _tiles(i, k, j)
    few = triton.cdiv(i, ti) * triton.cdiv(j, tj) <= _SPARE
    return int(triton.cdiv(k, _LONG)) if few else 1


def _launch(
    a: Tensor,
    b: Tensor,
    out: Tensor,
    rate: Tensor | None,
    exact: bool = False,
    base: Tensor | None = None,
) -> None:
    (n, i, k), j = a.shape, b.shape[2]
    ti, tk, tj = _tiles(i, k, j)
    parts = out.shape[1] if out.dim() == 4 else 1
    length = triton.cdiv(triton.cdiv(k, parts), tk) * tk
    base = out if base is None else base
    every = [m.stride(0) if n > 1 else 0 for m in (a, b, out, base)]
    units = [math.gcd(16, stride) for stride in every]
    by = [stride // unit for stride, unit in zip(every, units, strict=True)]
    rates = out if rate is None else rate
    by_rate = 0 if rate is None else rate.stride(0)
    inner = (*a.stride()[1:], *b.stride()[1:], out.stride(-2), base.stride(-2))
    tiles = triton.cdiv(i, ti) * triton.cdiv(j, tj)
    launch: Any = _multiply[tiles * parts, n]
    launch(
        *(a, b, out, base, rates, *by, by_rate, i, k, j, *inner, *units, length),
        *(rate is not None, ti, tk, tj, "tf32x3" if exact else input_precision()),
        num_warps=4,
        num_stages=3,
    )


def _tiles(i: int, k: int, j: int) -> tuple[int, int, int]:
    """Return the rows, terms and columns of a tile, whatever the number of clients."""
    ti = tile(i, 128 if i > 2048 else 64)
    if ti == 16:  # a batch of few examples: reading the weights takes all the time
        return ti, tile(k, 128), tile(j, 32)
    if k <= 16 and j >= 256:  # a gradient of few examples: writing takes all the time
        return 32, 16, 256
    return ti, tile(k, 32), tile(j, 64)
