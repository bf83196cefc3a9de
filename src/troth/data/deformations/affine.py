"""Affine flows.

References: alfarra2022deformrs.
"""

import torch
from torch import Tensor

from troth import seeding
from troth.data.deformations._flow import Frame, Interpolation, Padding, expect, flow


def affine(
    x: Tensor,
    parameters: Tensor,
    *,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "zeros",
    frame: Frame = "edges",
) -> Tensor:
    """Move every pixel's place by a flow that is linear in it.

    The image at p becomes that at p + ν(p) (Eq. 3 of the certified-robustness paper),
    with ν(p) = (ar + bs + c, dr + es + f) at row r and column s, both −1 to 1 in the
    image (DeformRS, "affine"). What is seen moves against ν. Parameters of two changes
    add up; the changes made one after another would be another one.

    Args:
        x: [b, channels, h, w] bytes, which become float32, or floats.
        parameters: [b, 6]: a, b, c, d, e, f; zeros leave the image as it is.
        interpolation: Way to read a value between pixels.
        padding: Filling outside: 0 (black), the nearest pixel, the mirrored image.
        frame: Position of −1 and 1: "edges", "centres" (of the outermost pixels), or
            "mixed". "mixed" is what the authors' code does.

    Departs: the authors give out coordinates by "centres" and read by "edges"
        (`linspace(-1, 1)`, then `grid_sample` with its default), so that even zeros
        enlarge the image by h/(h − 1) and darken its border; that is "mixed". A shift
        of 1 is half the image in both it and "edges".
    """
    expect("affine", x, parameters, 6)
    return flow(x, parameters, interpolation, padding, frame)


def draw(key: Tensor, sigma: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Parameters N(0, σ²I): [..., 6] for keys [...]."""
    return seeding.normal(key, 6, dtype) * sigma
