"""What y may be: a label, several of 0 and 1, or a share for each class.

Shares (soft labels) are a row of numbers for every example, as wide as there are
classes: the probability of each. They occur in training data alone; where some client
has them, the others' labels stand there as rows with a single 1.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

_CLOSE = 1e-5  # how far the shares of an example may be from 1 together


def soft(y: Tensor) -> bool:
    """Return whether y holds shares: rows of fractions, not whole labels."""
    return y.dim() == 2 and y.is_floating_point()


def shares(y: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return rows [m, classes] with a 1 for each label; shares stay as they are."""
    return (y if soft(y) else one_hot(y, classes)).to(dtype)


def likely(y: Tensor) -> Tensor:
    """Return the label [m] with the largest share; other labels and targets stay."""
    return y.argmax(dim=1) if soft(y) else y


def right(outputs: Tensor, y: Tensor) -> Tensor:
    """Return whether each example is predicted right; of several labels, the share.

    As `scores` counts: one output is a margin, class 1 when > 0, and outputs that are
    not finite are wrong.

    Args:
        outputs: [m, k] of a classifier.
        y: [m] labels, [m, classes] shares, or [m, k] of 0 and 1.
    """
    finite = outputs.isfinite().all(dim=1).to(outputs.dtype)
    if y.dim() == 2 and not soft(y):
        return finite * ((outputs > 0) == (y > 0)).to(outputs.dtype).mean(dim=1)
    label = likely(y)
    one = outputs.shape[1] == 1
    predicted = (outputs[:, 0] > 0).to(label.dtype) if one else outputs.argmax(dim=1)
    return finite * (predicted == label).to(outputs.dtype)


def wrong(p: Tensor) -> str:
    """Why rows are no probabilities, in words; nothing if they are."""
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
