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
    """Shift an image, by N(0, σ²) down the rows and along the columns.

    For every image and step, one sample of what a certificate smooths over (section 4,
    Training Setup), by `deformations.translation`. Bytes become float32.

    Args:
        x: [b, c, h, w] images.
        key: [b] one key per example.
        sigma: Standard deviation where 1 is half the image.
        interpolation: Way to read a value between pixels.
        padding: Filling outside the image: 0, the nearest pixel, or the mirrored image.
        frame: Position of −1 and 1 (`deformations.affine`).
    """
    return deformed("translation", x, key, sigma, interpolation, padding, frame)
