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
        x: [b, c, h, w].
        key: [b] one per example.
        sigma: standard deviation where 1 is half the image.
        interpolation: how a value between pixels is read.
        padding: what stands outside: 0, the nearest pixel, the mirrored image.
        frame: what −1 and 1 are (`deformations.affine`).
    """
    return deformed("translation", x, key, sigma, interpolation, padding, frame)
