"""Share of the negative examples that are recognized."""

import numpy as np

from troth.evaluation.scores import expect_classes, ratio


def specificity(
    y: np.ndarray, predicted: np.ndarray, classes: int, *, positive: int = 1
) -> float:
    """Compute the share of examples of other classes not predicted as `positive`.

    Args:
        y: [m] labels.
        predicted: [m] predicted labels; −1 if an output is not finite.
        classes: number of classes.
        positive: number of the positive class. All other classes are negative.

    Returns:
        The share; NaN if all examples are positive.

    Example:
        >>> specificity(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]), 2)
        0.5
    """
    expect_classes("specificity", y, classes)
    negative = (predicted != positive) & (predicted >= 0)
    return ratio(((y != positive) & negative).sum(), (y != positive).sum())
