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

    For every image and step, one sample of what a certificate smooths over (section 4,
    Training Setup), by `deformations.affine`. Bytes become float32.

    Args:
        x: [b, c, h, w].
        key: [b] one per example.
        sigma: standard deviation; coordinates are −1 to 1 in the image.
        interpolation: how a value between pixels is read.
        padding: what stands outside: 0, the nearest pixel, the mirrored image.
        frame: what −1 and 1 are (`deformations.affine`).
    """
    return deformed("affine", x, key, sigma, interpolation, padding, frame)
