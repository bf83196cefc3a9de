r"""Random affine flows.

References: alfarra2022certified.
"""

from torch import Tensor

from troth.data.augments._images import deformed
from troth.data.deformations._flow import Frame, Interpolation, Padding


def affine(
    x: Tensor,
    key: Tensor,
    *,
    sigma: float = 0.1,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "zeros",
    frame: Frame = "edges",
) -> Tensor:
    """Move an image along an affine flow of six parameters, each N(0, σ²).

    Each image gets new parameters in every step, and is changed by the deformation
    `affine`. The parameters have the same distribution as in certificates (Alfarra et
    al. 2022, Section 4, Training Setup). Bytes become float32.

    Args:
        x: [b, c, h, w] images.
        key: [b] random keys, one per example.
        sigma: Standard deviation σ of the parameters, for coordinates from −1 to 1.
        interpolation: Method to read a value between pixels.
        padding: Values outside the image: 0, the nearest pixel, or the mirrored image.
        frame: Position of the coordinates −1 and 1, as in the deformation `affine`.
    """
    return deformed("affine", x, key, sigma, interpolation, padding, frame)
