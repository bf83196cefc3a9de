"""Convolutions of many clients with different weights, in one launch.

Windows are not copied. A tile of the result is the sum, in float32, of products of
shifted inputs with the weights of one position in the kernel (a tap). The order of the
sum does not depend on the number of clients, and so neither do the bits of the result.
The plain code is in `troth.networks.convolution`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from troth.networks.kernels import input_precision
from troth.networks.kernels import tile as side

_LONG = 4096  # pixels of a client; longer sums are read further ahead


@triton.jit
def _convolve(
    x,
    w,
    out,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    P: tl.constexpr,
    Q: tl.constexpr,
    CO: tl.constexpr,
    M,
    HO: tl.constexpr,
    WO: tl.constexpr,
    ABOVE: tl.constexpr,
    LEFT: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
    BO: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """Compute a tile [BM pixels, BO channels] of one client's result.

    The channels that are summed lie next to each other in the weights [n, p, q, o, c].
    Tensor cores read numbers in TF32 only in this order.
    """
    n = tl.program_id(1).to(tl.int64)
    wide = (CO + BO - 1) // BO
    m = tl.program_id(0) // wide * BM + tl.arange(0, BM)
    o = tl.program_id(0) % wide * BO + tl.arange(0, BO)
    b = m // (HO * WO)
    i = m // WO % HO - ABOVE
    j = m % WO - LEFT
    x += n * (M // (HO * WO)) * H * W * C
    w += n * P * Q * C * CO
    blocks = (C + BC - 1) // BC
    total = tl.zeros((BM, BO), dtype=tl.float32)
    for k in range(P * Q * blocks):
        tap = k // blocks
        c = k % blocks * BC + tl.arange(0, BC)
        h = i + tap // Q
        v = j + tap % Q
        inside = (m < M) & (h >= 0) & (h < H) & (v >= 0) & (v < W)
        place = ((b * H + h) * W + v) * C
        there = inside[:, None] & (c < C)[None, :]
        seen = tl.load(x + place[:, None] + c[None, :], mask=there, other=0.0)
        known = (o < CO)[:, None] & (c < C)[None, :]
        weight = tl.load(
            w + (tap * CO + o[:, None]) * C + c[None, :], mask=known, other=0.0
        )
        total = tl.dot(seen, tl.trans(weight), total, input_precision=PRECISION)
    out += n * M * CO
    tl.store(
        out + m[:, None] * CO + o[None, :],
        total.to(out.dtype.element_ty),
        mask=(m < M)[:, None] & (o < CO)[None, :],
    )


@triton.jit
def _weigh(
    x,
    g,
    out,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    P: tl.constexpr,
    Q: tl.constexpr,
    CO: tl.constexpr,
    M,
    HO: tl.constexpr,
    WO: tl.constexpr,
    ABOVE: tl.constexpr,
    LEFT: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
    BO: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """Compute a tile [BC, BO] of one client's gradient in the weights of one tap."""
    n = tl.program_id(1).to(tl.int64)
    wide = (CO + BO - 1) // BO
    blocks = (C + BC - 1) // BC
    tap = tl.program_id(0) // (wide * blocks)
    c = tl.program_id(0) // wide % blocks * BC + tl.arange(0, BC)
    o = tl.program_id(0) % wide * BO + tl.arange(0, BO)
    x += n * (M // (HO * WO)) * H * W * C
    g += n * M * CO
    total = tl.zeros((BC, BO), dtype=tl.float32)
    for k in range((M + BM - 1) // BM):
        m = k * BM + tl.arange(0, BM)
        h = m // WO % HO - ABOVE + tap // Q
        v = m % WO - LEFT + tap % Q
        inside = (m < M) & (h >= 0) & (h < H) & (v >= 0) & (v < W)
        place = ((m // (HO * WO) * H + h) * W + v) * C
        there = inside[None, :] & (c < C)[:, None]
        seen = tl.load(x + place[None, :] + c[:, None], mask=there, other=0.0)
        known = (m < M)[:, None] & (o < CO)[None, :]
        slope = tl.load(g + m[:, None] * CO + o[None, :], mask=known, other=0.0)
        total = tl.dot(seen, slope, total, input_precision=PRECISION)
    out += (n * P * Q + tap) * C * CO
    tl.store(
        out + c[:, None] * CO + o[None, :],
        total.to(out.dtype.element_ty),
        mask=(c < C)[:, None] & (o < CO)[None, :],
    )


def convolve(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
    """Convolve [n, b, h, w, c] with weights [n, p, q, c, o] → [n, b, h', w', o].

    `above` rows of zeros are added above and below, and `left` columns of zeros on the
    left and right. A negative number removes rows or columns instead.
    """
    n, b, h, wide, c = x.shape
    p, q, o = w.shape[1], w.shape[2], w.shape[4]
    high, broad = h + 2 * above - p + 1, wide + 2 * left - q + 1
    out = x.new_empty(n, b, high, broad, o)
    m = b * high * broad
    tile = 128, side(c, 32), side(o, 64)
    grid = triton.cdiv(m, tile[0]) * triton.cdiv(o, tile[2]), n
    shape = h, wide, c, p, q, o, m, high, broad, above, left
    if out.numel():
        launch: Any = _convolve[grid]
        given = x.contiguous(), w.transpose(3, 4).contiguous(), out
        warps = 8 if x.dtype == torch.float32 else 4
        launch(*given, *shape, *tile, input_precision(), num_warps=warps, num_stages=3)
    return out


def weigh(x: Tensor, g: Tensor, p: int, q: int, above: int, left: int) -> Tensor:
    """Return the gradient of `convolve` with respect to the weights, [n, p, q, c, o].

    g is the gradient with respect to the result, [n, b, h', w', o]. The size of the
    kernel is p by q.
    """
    n, b, h, wide, c = x.shape
    high, broad, o = g.shape[2:]
    out = x.new_empty(n, p, q, c, o)
    m = b * high * broad
    rows, warps, stages = 128, 4, 3
    if x.dtype == torch.float32:
        rows, warps, stages = (32, 2, 5) if m > _LONG else (64, 4, 2)
    tile = rows, side(c, 32), side(o, 64)
    grid = p * q * triton.cdiv(c, tile[1]) * triton.cdiv(o, tile[2]), n
    shape = h, wide, c, p, q, o, m, high, broad, above, left
    if out.numel():
        launch: Any = _weigh[grid]
        given = x.contiguous(), g.contiguous(), out
        how = {"num_warps": warps, "num_stages": stages}
        launch(*given, *shape, *tile, input_precision(), **how)
    return out
