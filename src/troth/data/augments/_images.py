"""Helpers that several changes of images share."""

import math

from torch import Tensor

from troth import lookup
from troth.data.deformations._flow import Frame, Interpolation, Padding, precision
from troth.types import Refusal


def expect_images(name: str, x: Tensor) -> None:
    """Refuse inputs that are not images [b, c, h, w]."""
    if x.dim() != 4:
        raise Refusal(
            f"augment '{name}' needs images [channels, height, width], and one example "
            f"here has shape {list(x.shape[1:])}; leave it out, or use 'noise'"
        )


def deformed(
    name: str,
    x: Tensor,
    key: Tensor,
    sigma: float,
    interpolation: Interpolation,
    padding: Padding,
    frame: Frame,
) -> Tensor:
    """Apply the named deformation to every image, with random parameters for each.

    The function `draw` of the deformation's module draws the parameters, with spread
    sigma.
    """
    expect_images(name, x)
    if not 0 < sigma < math.inf:
        raise Refusal(
            f"{name}'s sigma = {sigma} must be a finite number above 0; to leave "
            f"images alone, leave {name} out"
        )
    how = {"interpolation": interpolation, "padding": padding, "frame": frame}
    deformation = lookup.find("deformation", name)
    draw = lookup.companion(deformation, "draw")
    assert draw is not None
    out: Tensor = deformation(x, draw(key, sigma, precision(x)), **how)
    return out
