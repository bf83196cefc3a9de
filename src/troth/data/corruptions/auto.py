"""The label poisoning of each data set of the Ditto paper: attack A1.

References: li2021ditto.
"""

from torch import Tensor

from troth.data.corruptions.flip_labels import flip_labels
from troth.data.corruptions.random_labels import random_labels


def auto(x: Tensor, y: Tensor, classes: int, key: Tensor) -> tuple[Tensor, Tensor]:
    """Flip labels if there are two classes, else draw them at random (attack A1).

    The code of Ditto's authors flips the labels of CelebA and Vehicle (`flip_labels`).
    It draws those of Fashion MNIST and FEMNIST uniformly (`random_labels`). If an
    example may have several labels, each label is drawn at random. For a regression,
    Refusal is raised.
    Threat model: a malicious client knows nothing of other clients. It controls its own
    training data and nothing else.
    """
    if classes == 2 and y.dim() == 1:
        return flip_labels(x, y, classes)
    return random_labels(x, y, classes, key)
