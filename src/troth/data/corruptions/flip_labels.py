"""Labels turned into their opposites.

References: fang2020local.
"""

from torch import Tensor


def flip_labels(x: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Label y becomes C − 1 − y: with two classes each becomes the other.

    The label flipping of Fang et al. (Section 5.1), and with two classes the A1 of the
    Ditto paper on CelebA and Vehicle. With an odd number of classes the middle one
    stays. Where an example may have several labels, it has those that it lacked. The
    target of a regression changes its sign.
    Threat model: knows nothing of the others; controls its own training data and
    nothing else.
    """
    if classes == 0:
        return x, -y
    return x, (classes if y.dim() == 1 else 2) - 1 - y
