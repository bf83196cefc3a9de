"""Squared error."""

from torch import Tensor

from troth.networks.losses._checks import targets


def squared(outputs: Tensor, y: Tensor) -> Tensor:
    """Compute half the squared error, ½(f − y)²; the mean target minimizes its mean.

    Args:
        outputs: [b, 1] predictions f.
        y: [b] targets.

    Returns:
        One value per example, [b].
    """
    return 0.5 * (targets("squared", outputs, y) - y).square()
