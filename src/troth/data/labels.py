"""Kinds of targets y: one label, several labels of 0 and 1, soft labels, or numbers.

Soft labels give the probability of each class: one row of `classes` numbers per
example. They occur only in training data. If any client has soft labels, the labels of
all other clients become rows with a single 1.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

_CLOSE = 1e-5  # tolerance of the sum of an example's soft labels


def soft(y: Tensor) -> bool:
    """Return whether y holds soft labels: rows of fractions."""
    return y.dim() == 2 and y.is_floating_point()


def shares(y: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return rows [m, classes] of probabilities; a plain label becomes a single 1."""
    return (y if soft(y) else one_hot(y, classes)).to(dtype)


def likely(y: Tensor) -> Tensor:
    """Return the most probable class [m] of soft labels; keep other targets."""
    return y.argmax(dim=1) if soft(y) else y


def right(outputs: Tensor, y: Tensor) -> Tensor:
    """Return whether each example is classified correctly, [m] of 0 and 1.

    If an example may have several labels, return the share of correct ones. As in
    `scores`, a single output is a margin, which predicts class 1 if it is above 0.
    Outputs that are not finite are wrong.

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
    """Say why rows are not probabilities; return "" if they are."""
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
