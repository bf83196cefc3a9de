"""What changes of images share."""

from __future__ import annotations

from torch import Tensor

from troth.types import Refusal


def expect_images(name: str, x: Tensor) -> None:
    """Refuse inputs that are not images [b, c, h, w]."""
    if x.dim() != 4:
        raise Refusal(
            f"augment '{name}' needs images [channels, height, width], and one example "
            f"here has shape {list(x.shape[1:])}; leave it out, or take noise"
        )
