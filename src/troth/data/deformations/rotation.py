"""Rotations about the center of the image.

References: alfarra2022deformrs.
"""

import torch
from torch import Tensor

from troth import seeding
from troth.data.deformations import _flow
from troth.data.deformations._flow import Frame, Interpolation, Padding


def rotation(
    x: Tensor,
    parameters: Tensor,
    *,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "zeros",
    frame: Frame = "edges",
) -> Tensor:
    """Turn an image about its center by an angle β.

    The pixel at p gets the value at p + ν(p), where ν(p) = (n(cos β − 1) − m sin β,
    n sin β + m(cos β − 1)) at row n and column m (Section 3.2 of Alfarra et al., 2022,
    *Certified Robustness in Federated Learning*). If β > 0, the content turns
    clockwise.

    Args:
        x: [b, channels, h, w] bytes, which become float32, or floats.
        parameters: [b, 1]: β in radians; 0: the image does not change.
        interpolation: Method to read a value between pixels.
        padding: Values outside the image: 0 (black), the nearest pixel, or the mirrored
            image.
        frame: Position of the coordinates −1 and 1, as in the deformation `affine`.
            Only "mixed" has an effect: it enlarges the image.

    Departs: the authors' code turns coordinates from −1 to 1 on both axes, which shears
        images that are not square. Here n and m are in pixels, as in the paper, so all
        images are only turned. As for `affine`, their code uses "mixed".
    """
    _flow.expect("rotation", x, parameters, 1)
    beta = parameters[:, 0].to(_flow.precision(x))
    # cos β − 1, accurate also for small angles
    less, sine = -2 * torch.sin(beta / 2) ** 2, torch.sin(beta)
    high, wide = _flow.pixels_per_unit(x.shape[2], x.shape[3], frame)
    ratio = wide / high if high and wide else 1.0
    still = torch.zeros_like(beta)
    whole = torch.stack([less, -ratio * sine, still, sine / ratio, less, still], dim=1)
    return _flow.flow(x, whole, interpolation, padding, frame)


def draw(key: Tensor, sigma: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw angles uniform on (−σ, σ): [..., 1] for keys [...]."""
    return (2 * seeding.uniform(key, 1, dtype) - 1) * sigma
