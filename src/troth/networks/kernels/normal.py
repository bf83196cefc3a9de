"""Millions of standard normal numbers in one pass over memory.

In separate torch operations, hash, logarithm and cosine take about twenty passes over
memory. The plain code is `troth.seeding.normal`. The random bits are the same, and the
numbers agree up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_GAMMA = tl.constexpr(0x9E3779B97F4A7C15 - (1 << 64))
_MIX1 = tl.constexpr(0xBF58476D1CE4E5B9 - (1 << 64))
_MIX2 = tl.constexpr(0x94D049BB133111EB - (1 << 64))
_BLOCK = 1024


@triton.jit
def _uniform(key, count) -> Any:
    """Return the number of `seeding.uniform` for a key and a count."""
    z = key + (count + 1) * _GAMMA
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * _MIX1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * _MIX2
    z = z ^ ((z >> 31) & 0x1FFFFFFFF)
    return (((z >> 41) & 0x7FFFFF).to(tl.float32) + 0.5) * 1.1920928955078125e-07


@triton.jit
def _narrow(drawn, std, mean) -> Any:
    """Return drawn·std + mean, clamped to the range of float32."""
    wide = drawn.to(tl.float64) * std + mean
    least = tl.minimum(wide, 3.4028234663852886e38)
    inside = tl.maximum(least, -3.4028234663852886e38)
    return tl.where(wide == wide, inside, wide).to(tl.float32)


@triton.jit
def _normal(
    keys, rows, stds, means, out, count, half, stride, BLOCK: tl.constexpr
) -> None:
    """Draw by the Box-Muller method: two numbers from every pair of uniform ones."""
    blocks = tl.cdiv(half, BLOCK)
    k = tl.program_id(0) // blocks
    i = (tl.program_id(0) % blocks).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key, std, mean = tl.load(keys + k), tl.load(stds + k), tl.load(means + k)
    radius = tl.sqrt_rn(-2.0 * tl.log(_uniform(key, i)))
    angle = 6.283185307179586 * _uniform(key, i + half)
    out += tl.load(rows + k) * stride
    x, y = radius * tl.cos(angle), radius * tl.sin(angle)
    tl.store(out + i, _narrow(x, std, mean), mask=i < half)
    tl.store(out + half + i, _narrow(y, std, mean), mask=half + i < count)


def normal(keys: Tensor, count: int) -> Tensor:
    """Return [n, count] standard normal numbers in float32, one row per int64 key."""
    out = torch.empty(len(keys), count, device=keys.device)
    ones = torch.ones(len(keys), dtype=torch.float64, device=keys.device)
    fill(out, torch.arange(len(keys), device=keys.device), keys, ones, 0 * ones)
    return out


def fill(out: Tensor, rows: Tensor, keys: Tensor, std: Tensor, mean: Tensor) -> None:
    """Fill some rows [f] of a float32 matrix [n, count] with normal numbers.

    `keys` (int64), `std` and `mean` (float64) have one value per row to fill. The rows
    of the matrix must be contiguous.
    """
    count = out.shape[1]
    half = (count + 1) // 2
    if len(rows) and count:
        launch: Any = _normal[triton.cdiv(half, _BLOCK) * len(rows),]
        given = (one.contiguous() for one in (keys, rows, std, mean))
        launch(*given, out, count, half, out.stride(0), _BLOCK)
