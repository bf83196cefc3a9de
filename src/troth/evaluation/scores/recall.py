"""Recall of every class."""

import numpy as np

from troth.evaluation.scores import expect_classes, ratio


def recall(y: np.ndarray, predicted: np.ndarray, classes: int) -> dict[str, float]:
    """Compute for each class the share of its examples that are recognized.

    The columns are `recall_0`, `recall_1` and so on.

    Args:
        y: [m] labels.
        predicted: [m] predicted labels.
        classes: number of classes.

    Returns:
        Class → share; NaN if no example is of the class.

    Example:
        >>> recall(np.array([1, 1, 0]), np.array([1, 0, 0]), 2)
        {'0': 1.0, '1': 0.5}
    """
    expect_classes("recall", y, classes)
    return {
        str(c): ratio(((y == c) & (predicted == c)).sum(), (y == c).sum())
        for c in range(classes)
    }
