"""Labels shifted to another class, all by the same number."""

from torch import Tensor

from troth.data.corruptions._numbers import check_classes
from troth.types import Refusal


def shift_labels(
    x: Tensor, y: Tensor, classes: int, *, offset: int = 1
) -> tuple[Tensor, Tensor]:
    """Replace label y by (y + offset) mod C, where C is the number of classes.

    All malicious clients use the same offset, so they push the model in the same
    direction. Random labels of several malicious clients would cancel each other. If an
    example may have several labels, its row of labels is rotated.
    Threat model: a malicious client knows nothing of other clients except the number of
    classes. It controls its own training data and nothing else.

    Args:
        x: [m, …] inputs, which do not change.
        y: [m] labels, or [m, C] of 0 and 1.
        classes: Number of classes C.
        offset: Number of classes to shift by; it may be negative, but not a multiple of
            C.
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
