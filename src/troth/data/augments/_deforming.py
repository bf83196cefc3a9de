"""Deformations with parameters drawn at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from troth.data.augments._images import expect_images
from troth.types import Refusal


def deformed(
    deformation: Callable[..., Tensor],
    draw: Callable[[Tensor, float, torch.dtype], Tensor],
    x: Tensor,
    key: Tensor,
    sigma: float,
    **options: Any,
) -> Tensor:
    """Every image changed by parameters of its own.

    Args:
        deformation: of `troth.data.deformations`; the augment has its name.
        draw: of the same module: keys, σ → parameters.
        x: [b, c, h, w].
        key: [b] one an example.
        sigma: how far parameters spread.
        options: of the deformation.
    """
    name = deformation.__name__
    expect_images(name, x)
    if not 0 < sigma < math.inf:
        raise Refusal(
            f"{name}'s sigma = {sigma} must be a finite number above 0; to leave "
            f"images alone, leave {name} out"
        )
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return deformation(x, draw(key, sigma, dtype), **options)
