"""Label poisoning as each data set of the Ditto paper has it: attack A1.

References: li2021ditto.
"""

from torch import Tensor

from troth.data.corruptions.flip_labels import flip_labels
from troth.data.corruptions.random_labels import random_labels


def auto(x: Tensor, y: Tensor, classes: int, key: Tensor) -> tuple[Tensor, Tensor]:
    """Flipped labels with two classes, random ones with more (attack A1).

    The authors' code flips the labels of CelebA and Vehicle (`flip_labels`) and draws
    those of Fashion MNIST and FEMNIST uniformly (`random_labels`). With several labels
    per example, each label is drawn at random. Regression is refused.
    Threat model: knows nothing of the others; controls its own training data and
    nothing else.
    """
    if classes == 2 and y.dim() == 1:
        return flip_labels(x, y, classes)
    return random_labels(x, y, classes, key)
