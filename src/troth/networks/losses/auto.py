"""The loss that suits the data."""

from torch import Tensor

from troth.networks.losses._suited import suited


def auto(outputs: Tensor, y: Tensor) -> Tensor:
    """Choose by y: cross-entropy, `multi_label`, or `squared` for targets.

    A model with a loss of its own (`svm`) keeps it.

    Args:
        outputs: [b, k].
        y: [b] labels, [b, classes] shares, [b, k] of 0 and 1, or [b] targets.

    Returns:
        One value per example, [b].
    """
    return suited(outputs, y)
