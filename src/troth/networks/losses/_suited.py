"""The loss for an experiment and a model that name none."""

from torch import Tensor

from troth.data import labels
from troth.networks.losses.cross_entropy import cross_entropy
from troth.networks.losses.multi_label import multi_label
from troth.networks.losses.squared import squared


def suited(outputs: Tensor, y: Tensor) -> Tensor:
    """Choose cross-entropy for labels, `multi_label` or, for targets, `squared`."""
    if y.is_floating_point() and not labels.soft(y):
        return squared(outputs, y)
    if y.dim() == 1 or labels.soft(y):
        return cross_entropy(outputs, y)
    return multi_label(outputs, y)
