"""The loss that suits the data."""

from torch import Tensor

from troth.data import labels
from troth.networks.losses.cross_entropy import cross_entropy
from troth.networks.losses.multi_label import multi_label
from troth.networks.losses.squared import squared


def auto(outputs: Tensor, y: Tensor) -> Tensor:
    """Choose by y: `cross_entropy`, `multi_label`, or `squared` for regression.

    A model that defines its own loss, such as `svm`, uses that loss instead.

    Args:
        outputs: [b, k] outputs of the model.
        y: [b] labels, [b, classes] shares of the classes, [b, k] of 0 and 1 (several
            labels per example), or [b] targets of a regression.

    Returns:
        One value per example, [b].
    """
    if y.is_floating_point() and not labels.soft(y):
        return squared(outputs, y)
    if y.dim() == 1 or labels.soft(y):
        return cross_entropy(outputs, y)
    return multi_label(outputs, y)
