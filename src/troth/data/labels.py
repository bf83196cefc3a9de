"""Functions for all kinds of targets y.

An example has one label, several labels of 0 and 1, a soft label, or a number. A soft
label is a row with the probability of each class. Soft labels occur only in training
data. If any client has them, plain labels become soft labels too: rows with a single 1.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

_CLOSE = 1e-5  # largest difference of 1 and the sum of a soft label


def soft(y: Tensor) -> bool:
    """Return whether y are soft labels: rows of fractional numbers."""
    return y.dim() == 2 and y.is_floating_point()


def shares(y: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return labels as soft labels [m, classes]; a plain label becomes a single 1."""
    return (y if soft(y) else one_hot(y, classes)).to(dtype)


def likely(y: Tensor) -> Tensor:
    """Return the most probable class [m] of soft labels; return other y unchanged."""
    return y.argmax(dim=1) if soft(y) else y


def right(outputs: Tensor, y: Tensor) -> Tensor:
    """Return whether each example is classified correctly, [m] of 0 and 1.

    If an example may have several labels, the result is the share of correct ones. A
    single output is a margin, which predicts class 1 if it is above 0. If an output is
    not finite, the example is wrong.

    Args:
        outputs: [m, k] outputs of a classifier.
        y: [m] labels, [m, classes] soft labels, or [m, k] labels of 0 and 1.
    """
    finite = outputs.isfinite().all(dim=1).to(outputs.dtype)
    if y.dim() == 2 and not soft(y):
        return finite * ((outputs > 0) == (y > 0)).to(outputs.dtype).mean(dim=1)
    label = likely(y)
    one = outputs.shape[1] == 1
    predicted = (outputs[:, 0] > 0).to(label.dtype) if one else outputs.argmax(dim=1)
    return finite * (predicted == label).to(outputs.dtype)


def wrong(p: Tensor) -> str:
    """Return a text that says why rows are not probabilities; "" if they are."""
    bad = ~(p.isfinite() & (p >= 0)).all(dim=1)
    why = "holds a share that is negative, NaN or infinite"
    if not bool(bad.any()):
        bad = (p.double().sum(dim=1) - 1).abs() > _CLOSE
        why = "adds up to {total:.6g}"
    if not bool(bad.any()):
        return ""
    first = int(bad.nonzero()[0])
    words = why.format(total=float(p[first].double().sum()))
    return f"row {first} {words} ({int(bad.sum())} of {len(p)} rows)"
