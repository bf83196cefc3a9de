"""Maximum pooling without overlaps, with the bias and the ReLU before it, in one pass.

torch computes the bias, the ReLU, the pooling and their gradients in six passes over
the images. Its pooling also stores places as int64 and adds gradients by atomics. Here
a place is one byte. The plain code is in `troth.networks.fused`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from troth.networks.kernels import NARROW

NOWHERE = 255  # place of a window without a gradient
_BLOCK = 1024


@triton.jit
def _pool(
    x,
    bias,
    out,
    places,
    count,
    images,
    by_bias,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    P: tl.constexpr,
    Q: tl.constexpr,
    BIAS: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Find the largest number of each window, for a block of results."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = i < count
    c, pixel = i % C, i // C
    high: tl.constexpr = H // P
    wide: tl.constexpr = W // Q
    image = pixel // (high * wide)
    first = (image * H + pixel // wide % high * P) * W + pixel % wide * Q
    shift = tl.zeros((BLOCK,), dtype=tl.float32)
    if BIAS:
        near = image // images * by_bias + c
        shift = tl.load(bias + near, mask=there, other=0.0).to(tl.float32)
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    place = tl.zeros((BLOCK,), dtype=tl.int32)
    for k in tl.static_range(P * Q):
        at = x + (first + k // Q * W + k % Q) * C + c
        seen = tl.load(at, mask=there, other=0.0)
        if BIAS:
            seen = (seen.to(tl.float32) + shift).to(seen.dtype)
        value = seen.to(tl.float32)
        larger = (value > best) | (value != value)
        best = tl.where(larger, value, best)
        place = tl.where(larger, k, place)
    if RELU:
        place = tl.where(best <= 0, 255, place)
        best = tl.where(best <= 0, 0.0, best)
    tl.store(out + i, best.to(out.dtype.element_ty), mask=there)
    tl.store(places + i, place.to(tl.uint8), mask=there)


@triton.jit
def _unpool(
    g,
    places,
    out,
    count,
    by_image,
    by_channel,
    by_row,
    by_column,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    P: tl.constexpr,
    Q: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write the gradient of each number, which is 0 unless it was the largest."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c, pixel = i % C, i // C
    row, column = pixel // W % H, pixel % W
    image = pixel // (H * W)
    r, s = row // P, column // Q
    high: tl.constexpr = H // P
    wide: tl.constexpr = W // Q
    there = (i < count) & (r < high) & (s < wide)
    near = ((image * high + r) * wide + s) * C + c
    place = tl.load(places + near, mask=there, other=255).to(tl.int32)
    at = g + image * by_image + c * by_channel + r * by_row + s * by_column
    here = there & (place == (row - r * P) * Q + column - s * Q)
    tl.store(out + i, tl.load(at, mask=here, other=0.0), mask=i < count)


def fits(x: Tensor, numbers: int, p: int, q: int) -> bool:
    """Return whether the kernels take images with so many numbers, and this window."""
    return x.dtype in NARROW and 0 < numbers < 2**31 and p * q < NOWHERE


def pool(
    x: Tensor, bias: Tensor | None, relu: bool, p: int, q: int
) -> tuple[Tensor, Tensor]:
    """Compute `networks.fused.pool` in one pass."""
    m, c, h, w = x.shape
    x = x.permute(0, 2, 3, 1).contiguous()
    out = x.new_empty(m, h // p, w // q, c)
    places = torch.empty_like(out, dtype=torch.uint8)
    given = x if bias is None else bias
    images = m if bias is None else m // len(bias)
    by_bias = 0 if bias is None or len(bias) == 1 else bias.stride(0)
    if out.numel():
        launch: Any = _pool[triton.cdiv(out.numel(), _BLOCK),]
        sizes = out.numel(), images, by_bias, h, w, c, p, q
        launch(x, given, out, places, *sizes, bias is not None, relu, _BLOCK)
    return out.permute(0, 3, 1, 2), places


def unpool(g: Tensor, places: Tensor, p: int, q: int, h: int, w: int) -> Tensor:
    """Compute `networks.fused.unpool` in one pass."""
    m, c = g.shape[:2]
    out = g.new_empty(m, h, w, c)
    launch: Any = _unpool[triton.cdiv(out.numel(), _BLOCK),]
    launch(g, places, out, out.numel(), *g.stride(), h, w, c, p, q, _BLOCK)
    return out.permute(0, 3, 1, 2)
