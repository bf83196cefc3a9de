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
    """Move pixels by an affine flow.

    The pixel at p gets the value at p + ν(p) (Eq. 3 of Alfarra et al., 2022, *Certified
    Robustness in Federated Learning*), with ν(p) = (ar + bs + c, dr + es + f) at row r
    and column s. Both coordinates are −1 to 1 in the image, as in DeformRS. The content
    of the image moves in the direction −ν. If the parameters of two changes are added,
    the result differs from one change after the other.

    Args:
        x: [b, channels, h, w] bytes, which become float32, or floats.
        parameters: [b, 6]: a, b, c, d, e, f; zeros: the image does not change.
        interpolation: Method to read a value between pixels.
        padding: Values outside the image: 0 (black), the nearest pixel, or the mirrored
            image.
        frame: Position of the coordinates −1 and 1: "edges" (of the image), "centres"
            (of the outermost pixels), or "mixed", as in the code of DeformRS.

    Departs: the code of DeformRS assigns coordinates by "centres" and reads the image
        by "edges" (`linspace(-1, 1)`, then `grid_sample` with its default). So even
        zeros enlarge the image by h/(h − 1) and darken its border. This is "mixed". In
        both "mixed" and "edges", a shift of 1 is half the image.
    """
    expect("affine", x, parameters, 6)
    return flow(x, parameters, interpolation, padding, frame)


def draw(key: Tensor, sigma: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw parameters from N(0, σ²I): [..., 6] for keys [...]."""
    return seeding.normal(key, 6, dtype) * sigma
