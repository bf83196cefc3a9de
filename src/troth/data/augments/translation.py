r"""Random shifts.

@article{alfarra2022certified,
  title={Certified Robustness in Federated Learning},
  author={Alfarra, Motasem and P{\'e}rez, Juan C. and Shulgin, Egor and
    Richt{\'a}rik, Peter and Ghanem, Bernard},
  journal={arXiv:2206.02535}, year={2022}}
"""

from __future__ import annotations

from torch import Tensor

from troth.data.augments._deforming import deformed
from troth.data.deformations import translation as deformation
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

    One sample an image and step of what a certificate smooths over (section 4, Training
    Setup), by the same function, `deformations.translation`. Bytes become float32.

    Args:
        x: [b, c, h, w].
        key: [b] one an example.
        sigma: standard deviation where 1 is half the image.
        interpolation: how a value between pixels is read.
        padding: what stands outside: 0, the nearest pixel, the mirrored image.
        frame: what −1 and 1 are (`deformations.affine`).
    """
    return deformed(
        deformation.translation,
        deformation.draw,
        x,
        key,
        sigma,
        interpolation=interpolation,
        padding=padding,
        frame=frame,
    )
