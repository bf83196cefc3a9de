"""What changes of images share."""

import math
from collections.abc import Callable

from torch import Tensor

from troth.data.deformations._flow import Frame, Interpolation, Padding, precision
from troth.types import Refusal


def expect_images(name: str, x: Tensor) -> None:
    """Refuse inputs that are not images [b, c, h, w]."""
    if x.dim() != 4:
        raise Refusal(
            f"augment '{name}' needs images [channels, height, width], and one example "
            f"here has shape {list(x.shape[1:])}; leave it out, or take noise"
        )


def deformed(
    deformation: Callable[..., Tensor],
    draw: Callable[..., Tensor],
    x: Tensor,
    key: Tensor,
    sigma: float,
    interpolation: Interpolation,
    padding: Padding,
    frame: Frame,
) -> Tensor:
    """Change every image by parameters of its own, drawn with spread sigma.

    The deformation, and the `draw` of its module, have the augment's name.
    """
    name = deformation.__name__
    expect_images(name, x)
    if not 0 < sigma < math.inf:
        raise Refusal(
            f"{name}'s sigma = {sigma} must be a finite number above 0; to leave "
            f"images alone, leave {name} out"
        )
    how = {"interpolation": interpolation, "padding": padding, "frame": frame}
    return deformation(x, draw(key, sigma, precision(x)), **how)
