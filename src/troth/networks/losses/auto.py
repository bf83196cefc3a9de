"""The default loss, chosen by the type of the labels."""

from torch import Tensor

from troth.data import labels
from troth.networks.losses.cross_entropy import cross_entropy
from troth.networks.losses.multi_label import multi_label
from troth.networks.losses.squared import squared


def auto(outputs: Tensor, y: Tensor) -> Tensor:
    """Compute `cross_entropy`, `multi_label`, or for a regression `squared`.

    The type and shape of y decide. With train.loss = "auto", a model that defines a
    loss, such as `svm`, uses that one instead.

    Args:
        outputs: [b, k] outputs of the model.
        y: [b] labels, [b, classes] soft labels (probabilities), [b, k] of 0 and 1 if
            examples may have several labels, or [b] targets of a regression.

    Returns:
        One value per example, [b].
    """
    if y.is_floating_point() and not labels.soft(y):
        return squared(outputs, y)
    if y.dim() == 1 or labels.soft(y):
        return cross_entropy(outputs, y)
    return multi_label(outputs, y)
