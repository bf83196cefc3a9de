r"""Random shifts.

References: alfarra2022certified.
"""

from torch import Tensor

from troth.data.augments._images import deformed
from troth.data.deformations._flow import Frame, Interpolation, Padding


def translation(
    x: Tensor,
    key: Tensor,
    *,
    sigma: float = 0.1,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "zeros",
    frame: Frame = "edges",
) -> Tensor:
    """Shift an image by N(0, σ²) down the rows and by N(0, σ²) along the columns.

    Each image gets new shifts in every step, by the deformation `translation`. They
    have the same distribution as in certificates (Alfarra et al. 2022, Section 4,
    Training Setup). Bytes become float32.

    Args:
        x: [b, c, h, w] images.
        key: [b] random keys, one per example.
        sigma: Standard deviation of a shift, in units of half the image's height or
            width.
        interpolation: Method to read a value between pixels.
        padding: Values outside the image: 0, the nearest pixel, or the mirrored image.
        frame: Position of the coordinates −1 and 1, as in the deformation `affine`.
    """
    return deformed("translation", x, key, sigma, interpolation, padding, frame)
