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

    Each image gets a new angle in every step, and is changed by the deformation
    `rotation`. The angle has the same distribution as in certificates (Alfarra et al.
    2022, Section 4, Training Setup). Bytes become float32.

    Args:
        x: [b, c, h, w] images.
        key: [b] random keys, one per example.
        sigma: Largest angle in radians; π allows every angle.
        interpolation: Method to read a value between pixels.
        padding: Values outside the image: 0, the nearest pixel, or the mirrored image.
        frame: Position of the coordinates −1 and 1, as in the deformation `affine`.

    Departs: the unit of σ is half a turn in the authors' code, and radians here. Their
        0.1 is 0.1π here, and their 0.5 is π/2.
    """
    return deformed("rotation", x, key, sigma, interpolation, padding, frame)
