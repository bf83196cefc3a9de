r"""Random rotations.

References: alfarra2022certified.
"""

import math

from torch import Tensor

from troth.data.augments._images import deformed
from troth.data.deformations._flow import Frame, Interpolation, Padding


def rotation(
    x: Tensor,
    key: Tensor,
    *,
    sigma: float = 0.1 * math.pi,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "zeros",
    frame: Frame = "edges",
) -> Tensor:
    """Turn an image about its center, by an angle uniform on (−σ, σ).

    Each image gets a new angle in every step. It has the distribution that a smoothed
    certificate uses (section 4, Training Setup). The deformation `rotation` is applied.
    Bytes become float32.

    Args:
        x: [b, c, h, w] images.
        key: [b] one key per example.
        sigma: Largest angle in radians; π allows every angle.
        interpolation: Method to read a value between pixels.
        padding: Filling outside the image: 0, the nearest pixel, or the mirrored image.
        frame: Position of the coordinates −1 and 1, as in the deformation `affine`.

    Departs: the authors' σ counts in half turns; their 0.1 is 0.1π here, their 0.5 is
        π/2.
    """
    return deformed("rotation", x, key, sigma, interpolation, padding, frame)
