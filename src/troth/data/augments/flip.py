"""Random reflections of images."""

import torch
from torch import Tensor

from troth import seeding
from troth.data.augments._images import expect_images
from troth.types import Refusal


def flip(x: Tensor, key: Tensor, *, p: float = 0.5) -> Tensor:
    """Mirror an image left to right, with probability p.

    Args:
        x: [b, c, h, w] images.
        key: [b] random keys, one per example.
        p: Probability of a flip.
    """
    if not 0 <= p <= 1:
        raise Refusal(f"flip's p = {p} must be a probability, 0 to 1")
    expect_images("flip", x)
    turned = seeding.uniform(key, 1) < p  # [b, 1]
    return torch.where(turned[..., None, None], x.flip(-1), x)
