"""A trigger in the input, and the label that it should cause.

References: gu2019badnets, bagdasaryan2020backdoor.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from troth.data.corruptions._numbers import check_classes
from troth.types import Refusal

Corner = Literal["bottom_right", "bottom_left", "top_right", "top_left"]


def backdoor(
    x: Tensor,
    y: Tensor,
    classes: int,
    scale: float,
    *,
    target: int = 0,
    size: int = 3,
    corner: Corner = "bottom_right",
    value: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Paint a square of pixels in a corner, and set the label to the target.

    This is the all-to-one attack of BadNets on MNIST (bright pixels in the bottom right
    corner), in federated training. The square is the trigger. A model with the backdoor
    is as accurate on clean inputs as any other, so its accuracy does not reveal the
    backdoor. The metric `attack_success` does: it is the share of test inputs of other
    classes that are classified as the target if they have the trigger. For comparison,
    it is also computed without adversaries.

    With corruption.share = 1, the default, all training examples of a malicious client
    have the trigger and the target label. A share of 0.5 is usual, and keeps the
    client's model accurate on clean inputs. If an example may have several labels, the
    target is added to them.
    Threat model: a malicious client knows nothing of other clients. It controls its own
    training data, and later the inputs that it wants misclassified. With the attack
    `model_replacement` it controls its message too (Bagdasaryan et al.).

    Args:
        x: [m, channels, height, width] images; for other data, Refusal is raised.
        y: [m] labels, or [m, C] of 0 and 1.
        classes: Number of classes C.
        scale: Value of x that is scaled to 1 (255 for bytes).
        target: Label that the trigger should cause.
        size: Side of the square in pixels, at most the shorter side of the image.
        corner: Corner of the image in which the square is painted.
        value: Gray value of the square in units of scale: 0: black; 1: white.
    """
    about = x, y, classes, scale
    shown, _ = aim(*about, target=target, size=size, corner=corner, value=value)
    labels = y.clone()
    if y.dim() == 2:
        labels[:, target] = 1
    else:
        labels.fill_(target)
    return shown, labels


def aim(
    x: Tensor,
    y: Tensor,
    classes: int,
    scale: float,
    *,
    target: int,
    size: int,
    corner: Corner,
    value: float,
) -> tuple[Tensor, Tensor]:
    """Return inputs with the trigger, and the label that the attacker wants for each.

    The arguments are those of `backdoor`.

    Returns:
        The inputs with the trigger, and the wanted labels: the target for examples of
        other classes, and −1 for examples of the target's class, which do not count.
    """
    check_classes("backdoor", classes)
    if x.dim() != 4:
        raise Refusal(
            "backdoor paints a corner of images [channels, height, width], and one "
            f"example here has shape {list(x.shape[1:])}; set corruption.name to "
            "another one, such as 'shift_labels', or to 'none'"
        )
    if not 0 <= target < classes:
        raise Refusal(
            f"corruption.target = {target} is no label of this data set; it has "
            f"{classes} classes, 0 … {classes - 1}"
        )
    most = min(x.shape[2:])
    if not 1 <= size <= most:
        raise Refusal(
            f"corruption.size = {size} does not fit images of {x.shape[2]}×{x.shape[3]}"
            f" pixels; it must be at least 1 and at most {most}"
        )
    rows = slice(-size, None) if "bottom" in corner else slice(size)
    columns = slice(-size, None) if "right" in corner else slice(size)
    shown = x.clone()
    shown[:, :, rows, columns] = _color(x, scale, value)
    other = y[:, target] == 0 if y.dim() == 2 else y != target
    return shown, torch.where(other, target, -1)


def _color(x: Tensor, scale: float, value: float) -> float:
    """Return the pixel value of the trigger."""
    color, bytes_ = value * scale, x.dtype == torch.uint8
    low, high = (0.0, 255.0) if bytes_ else (-(2.0**127), 2.0**127)
    if not low <= color <= high:  # also if it is NaN
        raise Refusal(
            f"corruption.value = {value} is a pixel of {color:g}, where 1 is "
            f"{scale:g}; it must be a finite number"
            + (f", at least 0 and at most {255 / scale:g}" if bytes_ else "")
        )
    return math.floor(color + 0.5) if bytes_ else color
