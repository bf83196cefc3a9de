"""Labels replaced by their opposites.

References: fang2020local.
"""

from torch import Tensor


def flip_labels(x: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Replace label y by C − 1 − y, where C is the number of classes.

    This is the label flipping of Fang et al. (2020, Section 5.1). With two classes,
    each becomes the other one, as in attack A1 of the Ditto paper on CelebA and
    Vehicle. If C is odd, the middle class does not change. If an example may have
    several labels, it gets exactly those that it did not have. The target of a
    regression changes its sign.
    Threat model: a malicious client knows nothing of other clients. It controls its own
    training data and nothing else.
    """
    if classes == 0:
        return x, -y
    return x, (classes if y.dim() == 1 else 2) - 1 - y
