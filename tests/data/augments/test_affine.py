from __future__ import annotations

from typing import Any

import torch

from troth.data.augments.affine import affine


def test_all_six_parameters_move_the_image(keys: Any) -> None:
    """A plane x = r and one x = s show the flow itself, away from the border."""
    m, side, sigma = 2_000, 65, 0.02
    line = torch.arange(1.0 - side, side, 2) / side
    plane = torch.stack([line[:, None].expand(side, side), line.expand(side, side)])
    out = affine(plane.expand(m, 2, side, side), keys(m), sigma=sigma)
    inside = (out - plane)[..., 16:49, 16:49]  # the flow: [m, 2, 33, 33]
    r, s = line[16:49, None].expand(33, 33), line[16:49].expand(33, 33)
    basis = torch.stack([r, s, torch.ones(33, 33)], dim=-1).reshape(-1, 3)
    found = inside.reshape(m, 2, -1) @ torch.linalg.pinv(basis).T
    z = found.reshape(m, 6) / sigma
    # Six standard errors: fails once in 10⁷.
    assert z.mean(0).abs().max() < 6 / m**0.5
    assert (z.square().mean(0) - 1).abs().max() < 6 * (2 / m) ** 0.5
    apart = z.T @ z / m - torch.eye(6)
    assert apart.fill_diagonal_(0).abs().max() < 6 / m**0.5
