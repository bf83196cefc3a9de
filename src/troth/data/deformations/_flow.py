"""Resample images along an affine flow, which moves their content."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from troth.types import Refusal

Interpolation = Literal["bilinear", "nearest"]
"""Method to read a value between pixels."""

Padding = Literal["zeros", "border", "reflection"]
"""Values outside the image: 0, the nearest pixel, or the image mirrored at its edges.
"""

Frame = Literal["edges", "centres", "mixed"]
"""Position of the coordinates −1 and 1 on each axis of the image. "edges": the outer
edges. "centres": the centers of the outermost pixels. "mixed": as in the code of
DeformRS, pixels get their coordinates by "centres", and the image is read by "edges".
This enlarges the image by h/(h − 1)."""


def flow(
    x: Tensor,
    parameters: Tensor,
    interpolation: Interpolation,
    padding: Padding,
    frame: Frame,
) -> Tensor:
    """Resample images along an affine flow (Eq. 3 of Alfarra et al., 2022).

    The pixel at p gets the value at p + ν(p), where ν(p) = (ar + bs + c,
    dr + es + f) at p = (r, s), with r down the rows and s along the columns. The image
    is resampled only once. Bytes are read as float32, with the same values. Coordinates
    are computed in float32 or float64, even if the image has a lower precision.

    Args:
        x: [b, channels, h, w] images.
        parameters: [b, 6]: a … f.
        interpolation: method to read a value between pixels.
        padding: values outside the image.
        frame: position of the coordinates −1 and 1.
    """
    h, w = x.shape[-2:]
    precise = precision(x)
    rows = _coordinates(h, frame, precise, x.device)[:, None]  # [h, 1]
    columns = _coordinates(w, frame, precise, x.device)  # [w]
    a, b, c, d, e, f = parameters.to(precise)[..., None, None].unbind(1)  # [b, 1, 1]
    down = rows + (a * rows + b * columns + c)
    along = columns + (d * rows + e * columns + f)
    if frame == "centres":  # grid_sample expects "edges"
        down, along = down * ((h - 1) / h), along * ((w - 1) / w)
    out = grid_sample(
        x.to(precise),
        torch.stack([along, down], dim=-1),
        mode=interpolation,
        padding_mode=padding,
        align_corners=False,
    )
    return out.to(x.dtype) if x.is_floating_point() else out


def precision(x: Tensor) -> torch.dtype:
    """Return the dtype in which coordinates are computed."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _coordinates(
    size: int, frame: Frame, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return the coordinates of the pixels of one axis; a single pixel is at 0."""
    whole = torch.arange(1 - size, size, 2, dtype=dtype, device=device)
    return whole / (size if frame == "edges" else max(size - 1, 1))


def pixels_per_unit(
    height: int, width: int, frame: Frame = "edges"
) -> tuple[float, float]:
    """Return the number of pixels in a shift of 1: down the rows, along the columns."""
    if frame == "centres":
        return (height - 1) / 2, (width - 1) / 2
    return height / 2, width / 2


def expect(name: str, x: Tensor, parameters: Tensor, k: int) -> None:
    """Raise Refusal if inputs are not images with k parameters each."""
    if x.dim() != 4 or 0 in x.shape[1:]:
        raise Refusal(
            f"deformation '{name}' needs images [examples, channels, height, width], "
            f"and these inputs have shape {list(x.shape)}; for other inputs use "
            "noise on their values"
        )
    if x.is_complex() or x.dtype == torch.bool:
        raise Refusal(
            f"deformation '{name}' needs images of whole or real numbers, and these "
            f"are {str(x.dtype).removeprefix('torch.')}; convert them with .float()"
        )
    if parameters.shape != (x.shape[0], k):
        raise Refusal(
            f"deformation '{name}' needs parameters of shape {[x.shape[0], k]}, {k} "
            f"per image, and these have shape {list(parameters.shape)}"
        )
