"""Shifts.

References: alfarra2022deformrs.
"""

import torch
from torch import Tensor

from troth import seeding
from troth.data.deformations._flow import Frame, Interpolation, Padding, expect, flow


def translation(
    x: Tensor,
    parameters: Tensor,
    *,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "zeros",
    frame: Frame = "edges",
) -> Tensor:
    """Shift an image by (t_u, t_v).

    The pixel at p gets the value at p + (t_u, t_v) (Section 3.2 of Alfarra et al.,
    2022, *Certified Robustness in Federated Learning*). So if t_u > 0, the content
    moves up, and if t_v > 0, it moves to the left. A shift of 1 is half the image
    (`_flow.pixels_per_unit` converts it to pixels).

    Args:
        x: [b, channels, h, w] bytes, which become float32, or floats.
        parameters: [b, 2]: t_u down the rows, and t_v along the columns. With 0, the
            image does not change; with ±2, its content is moved out of it.
        interpolation: Method to read a value between pixels.
        padding: Values outside the image: 0 (black), the nearest pixel, or the mirrored
            image.
        frame: Position of the coordinates −1 and 1, as in the deformation `affine`.

    Departs: as for `affine`, the authors' code uses "mixed".
    """
    expect("translation", x, parameters, 2)
    u, v = parameters.unbind(1)
    still = torch.zeros_like(u)
    whole = torch.stack([still, still, u, still, still, v], dim=1)
    return flow(x, whole, interpolation, padding, frame)


def draw(key: Tensor, sigma: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw shifts from N(0, σ²I): [..., 2] for keys [...]."""
    return seeding.normal(key, 2, dtype) * sigma
