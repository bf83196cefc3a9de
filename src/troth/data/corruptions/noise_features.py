"""Noise on inputs, as a model of a client with bad data rather than an attacker."""

import math

import torch
from torch import Tensor

from troth import seeding
from troth.data.corruptions._numbers import like
from troth.types import Refusal


def noise_features(
    x: Tensor, y: Tensor, key: Tensor, scale: float, *, std: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Add independent normal noise to every number of an input; keep the labels.

    Bytes are rounded and stay within 0 … 255. A missing value stays missing. The noise
    has the same standard deviation for all features. If features have different scales,
    it may be too large for some and too small for others.
    Threat model: a malicious client knows nothing of other clients. It controls its own
    training data and nothing else.

    Args:
        x: [m, …] inputs.
        y: [m, …] labels or targets, which do not change.
        key: Key of the noise.
        scale: Value of x that is scaled to 1 (255 for bytes).
        std: Standard deviation of the noise, in units of scale; 0: no noise.
    """
    if not (std >= 0 and math.isfinite(std * scale)):
        raise Refusal(
            f"corruption.std = {std} is not a standard deviation; it must be at "
            "least 0 and finite, in units of the range of the data, such as 1.0"
        )
    if std == 0:
        return x, y
    kind = x.dtype if x.is_floating_point() else torch.float32
    noise = seeding.normal(key, x.numel(), kind).reshape(x.shape)
    return like(x.to(kind) + noise * (std * scale), x), y
