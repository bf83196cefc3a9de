"""Helper functions for random changes of images."""

import math

from torch import Tensor

from troth import lookup
from troth.data.deformations._flow import Frame, Interpolation, Padding, precision
from troth.types import Refusal


def expect_images(name: str, x: Tensor) -> None:
    """Raise Refusal if inputs are not images [b, c, h, w]."""
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
    """Apply a deformation to every image, with different random parameters.

    The parameters come from the function `draw` in the module of the deformation.

    Args:
        name: name of the deformation.
        x: [b, c, h, w] images.
        key: [b] random keys, one per example.
        sigma: size σ of the parameters.
        interpolation: method to read a value between pixels.
        padding: values outside the image.
        frame: position of the coordinates −1 and 1.
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
