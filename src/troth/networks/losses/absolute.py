"""Absolute error."""

from torch import Tensor

from troth.networks.losses._checks import targets


def absolute(outputs: Tensor, y: Tensor) -> Tensor:
    """Compute the absolute error |f − y|; the median of the targets minimizes its mean.

    Args:
        outputs: [b, 1] predictions f.
        y: [b] targets.

    Returns:
        One value per example, [b].
    """
    return (targets("absolute", outputs, y) - y).abs()
