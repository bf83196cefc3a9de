from __future__ import annotations

import math
from typing import Any

import torch

from troth.data.augments.rotation import rotation
from troth.data.deformations.rotation import draw
from troth.data.deformations.rotation import rotation as deformation


def test_angles_stay_within_sigma(keys: Any) -> None:
    """A dot at the right edge: where it goes tells the angle."""
    m, side, sigma = 3_000, 33, 0.5
    x = torch.zeros(m, 1, side, side)
    x[:, :, 16, 27:30] = 1.0  # 11 to 13 pixels from the middle
    out = rotation(x, keys(m), sigma=sigma)
    place = torch.arange(side) - 16.0
    mass = out.sum((1, 2, 3))
    down = (out.sum((1, 3)) * place).sum(1) / mass
    right = (out.sum((1, 2)) * place).sum(1) / mass
    angle = torch.atan2(down, right)
    assert angle.abs().max() < sigma + 0.01
    # Uniform: moments within six standard errors (one in 10⁸) and what pixels blur.
    assert abs(angle.mean()) < 6 * sigma / (3 * m) ** 0.5 + 0.002
    assert abs(angle.square().mean() / (sigma**2 / 3) - 1) < 6 * (0.8 / m) ** 0.5 + 0.02


def test_a_half_turn_is_every_angle(keys: Any) -> None:
    x = torch.rand(500, 1, 8, 8)
    angle = draw(keys(500), math.pi)
    assert angle.min() < -3.0 and angle.max() > 3.0  # fails once in 10⁹
    out = rotation(x, keys(500), sigma=math.pi)
    assert torch.equal(out, deformation(x, angle))
