"""Share of the positive examples that are recognized."""

import numpy as np

from troth.evaluation.scores import expect_classes, ratio


def sensitivity(
    y: np.ndarray, predicted: np.ndarray, classes: int, *, positive: int = 1
) -> float:
    """Compute the share of examples of one class that are predicted as this class.

    Args:
        y: [m] labels.
        predicted: [m] predicted labels.
        classes: number of classes.
        positive: number of the class.

    Returns:
        The share; NaN if no example is of this class.

    Example:
        >>> sensitivity(np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]), 2)
        0.5
    """
    expect_classes("sensitivity", y, classes)
    return ratio(
        ((y == positive) & (predicted == positive)).sum(), (y == positive).sum()
    )
