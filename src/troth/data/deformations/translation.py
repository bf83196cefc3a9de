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
    """Shift an image: ν(p) = (t_u, t_v) for every p (section 3.2).

    The pixel at p gets the value at p + ν(p). A positive t_u therefore moves the
    content up, and a positive t_v moves it to the left. A shift of 1 is half the image
    (`_flow.pixels_per_unit` converts it to pixels).

    Args:
        x: [b, channels, h, w] bytes, which become float32, or floats.
        parameters: [b, 2]: t_u down the rows, t_v along the columns. Zeros leave the
            image as it is; ±2 move all of its content out.
        interpolation: Method to read a value between pixels.
        padding: Filling outside the image: 0 (black), the nearest pixel, or the
            mirrored image.
        frame: Position of the coordinates −1 and 1, as in the deformation `affine`.

    Departs: as `affine`; "mixed" is what the authors' code does.
    """
    expect("translation", x, parameters, 2)
    u, v = parameters.unbind(1)
    still = torch.zeros_like(u)
    whole = torch.stack([still, still, u, still, still, v], dim=1)
    return flow(x, whole, interpolation, padding, frame)


def draw(key: Tensor, sigma: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw shifts from N(0, σ²I): [..., 2] for keys [...]."""
    return seeding.normal(key, 2, dtype) * sigma
