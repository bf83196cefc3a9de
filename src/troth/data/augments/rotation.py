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
    """Turn an image about its middle, by an angle uniform on (−σ, σ).

    For every image and step, one sample of what a certificate smooths over (section 4,
    Training Setup), by `deformations.rotation`. Bytes become float32.

    Args:
        x: [b, c, h, w].
        key: [b] one per example.
        sigma: the largest angle in radians; π is every angle.
        interpolation: how a value between pixels is read.
        padding: what stands outside: 0, the nearest pixel, the mirrored image.
        frame: what −1 and 1 are (`deformations.affine`).

    Departs: the authors' σ counts in half turns; their 0.1 is 0.1π here, their 0.5 is
        π/2.
    """
    return deformed("rotation", x, key, sigma, interpolation, padding, frame)
