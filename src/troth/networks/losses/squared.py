"""Squared error."""

from torch import Tensor

from troth.networks.losses._checks import targets


def squared(outputs: Tensor, y: Tensor) -> Tensor:
    """Half the squared error, ½(f − y)²: regression on the mean.

    Args:
        outputs: [b, 1] predictions f.
        y: [b] targets.
    """
    return 0.5 * (targets("squared", outputs, y) - y).square()
