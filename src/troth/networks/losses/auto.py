"""The loss that suits the data."""

from __future__ import annotations

from torch import Tensor

from troth.data import labels
from troth.networks.losses.cross_entropy import cross_entropy
from troth.networks.losses.multi_label import multi_label
from troth.networks.losses.squared import squared


def auto(outputs: Tensor, y: Tensor) -> Tensor:
    """What suits y: cross-entropy for a label, `multi_label` for several, `squared`.

    A model that brings a loss of its own (`svm`) keeps it.

    Args:
        outputs: [b, k].
        y: [b] labels, [b, classes] shares, [b, k] of 0 and 1, or [b] targets.
    """
    if y.is_floating_point() and not labels.soft(y):
        return squared(outputs, y)
    if y.dim() == 1 or labels.soft(y):
        return cross_entropy(outputs, y)
    return multi_label(outputs, y)
