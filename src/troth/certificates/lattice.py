"""Noise on a lattice, that is, multiples of a number h.

Inputs are rounded to the same lattice, so the sums of inputs and noise are exact.

References: voracek2023sound.
"""

import math

import torch
from torch import Tensor

from troth import seeding
from troth.certificates.bounds import Law

_FINE = 15  # σ/h is at least 2 to this power, and less than twice that
_WIDEST = 2.0**51  # up to this multiple of h, sums with noise are exact in float64
ERROR = 2.0**-34
"""Bound on the total variation distance between two distributions: that of a computed
number, and that of an exact normal (or uniform) number rounded to the lattice."""


def step(sigma: float) -> float:
    """Return the spacing h of the lattice: a power of two, σ/2¹⁶ < h ≤ σ/2¹⁵.

    >>> step(0.5) == 2.0**-16
    True
    """
    return math.ldexp(0.5, math.frexp(sigma)[1] - _FINE)


def largest(sigma: float) -> float:
    """Return the largest absolute input for which its sum with noise is exact."""
    return _WIDEST * step(sigma)


def nearest(x: Tensor, sigma: float) -> Tensor:
    """Round numbers to the nearest points of the lattice, in float64."""
    h = step(sigma)
    return ((_precise(x).double() / h).round()) * h


def noise(keys: Tensor, count: int, sigma: float, law: Law) -> Tensor:
    """Draw noise on the lattice: [..., count] in float64.

    Each number is made of 64 random bits. One bit is the sign. The others are a tail
    probability, which the inverse distribution function maps to an absolute value. The
    absolute value is rounded to a multiple of h.

    Args:
        keys: random keys, one per sample, [...].
        count: number of noise values per key.
        sigma: σ: the standard deviation, or half the width of the uniform distribution.
        law: "normal": N(0, σ²). "uniform": uniform on (−σ, σ).
    """
    random, h = seeding.bits(_precise(keys), count), step(sigma)
    tail = ((random & 0x7FFFFFFFFFFFFFFF).double() + 0.5) * 2.0**-64  # from 0 to ½
    size = -torch.special.ndtri(tail) if law == "normal" else 2 * tail
    steps = (size * (sigma / h)).round()
    return torch.where(random < 0, -steps, steps) * h


def _precise(values: Tensor) -> Tensor:
    """Move values to the CPU if their device has no float64."""
    return values.cpu() if values.device.type == "mps" else values
