"""Labels shifted to another class, all by the same step."""

from torch import Tensor

from troth.data.corruptions._numbers import check_classes
from troth.types import Refusal


def shift_labels(
    x: Tensor, y: Tensor, classes: int, *, offset: int = 1
) -> tuple[Tensor, Tensor]:
    """Label y becomes (y + offset) mod C: malicious clients agree on a wrong answer.

    Where random labels cancel each other, these pull all malicious clients one way.
    Where an example may have several labels, the row of them is rolled.
    Threat model: knows nothing of the others but the number of classes; controls its
    own training data and nothing else.

    Args:
        x: [m, …] inputs, which stay.
        y: [m] labels, or [m, C] of 0 and 1.
        classes: Number of classes C.
        offset: Number of classes to shift by, negative for down; no multiple of C.
    """
    check_classes("shift_labels", classes)
    if offset % classes == 0:
        raise Refusal(
            f"corruption.offset = {offset} changes nothing with {classes} classes; it "
            f"must be no multiple of {classes}, such as 1 (for no corruption set "
            "corruption.name = 'none')"
        )
    if y.dim() == 2:
        return x, y.roll(offset % classes, dims=1)
    return x, (y + offset) % classes
