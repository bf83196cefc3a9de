from __future__ import annotations

from typing import Any

import torch

from troth.data.augments.translation import translation


def test_shifts_are_normal_in_both_directions(keys: Any) -> None:
    """A dot in the middle of a wide frame: where it goes tells the shift."""
    m, side, sigma = 3_000, 65, 0.1
    x = torch.zeros(m, 1, side, side)
    x[:, :, 32, 32] = 1.0
    out = translation(x, keys(m), sigma=sigma)
    place = (torch.arange(side) - 32.0) / (side / 2)
    shift = torch.stack([out.sum((1, 3)) @ place, out.sum((1, 2)) @ place], dim=1)
    z = -shift / sigma  # what is seen moves against the flow
    # Six standard errors: fails once in 10⁸.
    assert z.mean(0).abs().max() < 6 / m**0.5
    assert (z.square().mean(0) - 1).abs().max() < 6 * (2 / m) ** 0.5
    assert abs((z[:, 0] * z[:, 1]).mean()) < 6 / m**0.5
