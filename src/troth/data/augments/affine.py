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

    Each image gets new parameters in every step. They have the distribution that a
    smoothed certificate uses (section 4, Training Setup). The deformation `affine` is
    applied. Bytes become float32.

    Args:
        x: [b, c, h, w] images.
        key: [b] one key per example.
        sigma: Standard deviation σ; coordinates are −1 to 1 in the image.
        interpolation: Method to read a value between pixels.
        padding: Filling outside the image: 0, the nearest pixel, or the mirrored image.
        frame: Position of the coordinates −1 and 1, as in the deformation `affine`.
    """
    return deformed("affine", x, key, sigma, interpolation, padding, frame)
