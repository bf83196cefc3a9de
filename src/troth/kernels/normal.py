"""Standard normal numbers by the million, in one pass.

In steps of their own, hash, logarithm and cosine go through memory some twenty times.
The plain code is `troth.seeding.normal`; the bits are the same, the numbers are to
rounding.
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
    """`seeding.uniform`: the number of a key that has this count."""
    z = key + (count + 1) * _GAMMA
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * _MIX1
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * _MIX2
    z = z ^ ((z >> 31) & 0x1FFFFFFFF)
    return (((z >> 41) & 0x7FFFFF).to(tl.float32) + 0.5) * 1.1920928955078125e-07


@triton.jit
def _normal(keys, out, count, half, BLOCK: tl.constexpr) -> None:
    """Box and Muller: two numbers of every pair."""
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + row)
    radius = tl.sqrt_rn(-2.0 * tl.log(_uniform(key, i)))
    angle = 6.283185307179586 * _uniform(key, i + half)
    out += row * count
    tl.store(out + i, radius * tl.cos(angle), mask=i < half)
    tl.store(out + half + i, radius * tl.sin(angle), mask=half + i < count)


def normal(keys: Tensor, count: int) -> Tensor:
    """[n, count] in float32, a row a key.

    Args:
        keys: [n] int64.
        count: how many of each.
    """
    out = torch.empty(len(keys), count, device=keys.device)
    half = (count + 1) // 2
    if out.numel():
        launch: Any = _normal[triton.cdiv(half, _BLOCK), len(keys)]
        launch(keys.contiguous(), out, count, half, _BLOCK)
    return out
