"""The loss that suits the data."""

from torch import Tensor

from troth.networks.losses._suited import suited


def auto(outputs: Tensor, y: Tensor) -> Tensor:
    """What suits y: cross-entropy for a label, `multi_label` for several, `squared`.

    A model that brings a loss of its own (`svm`) keeps it.

    Args:
        outputs: [b, k].
        y: [b] labels, [b, classes] shares, [b, k] of 0 and 1, or [b] targets.
    """
    return suited(outputs, y)
