"""Harmonic mean of precision and recall."""

import numpy as np

from troth.evaluation.scores import expect_classes, ratio


def f1(y: np.ndarray, predicted: np.ndarray, classes: int) -> float:
    """Compute 2·TP / (2·TP + FP + FN) from true and false positives and negatives.

    With two classes, class 1 is the positive one. With more, the value is the mean over
    the classes that are in `y` or are predicted (macro F1).

    Args:
        y: [m] labels.
        predicted: [m] predicted labels; −1 if an output is not finite.
        classes: number of classes.

    Returns:
        The score; NaN if no example is positive or predicted as positive.

    Example:
        >>> round(f1(np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0]), 2), 3)
        0.5
    """
    expect_classes("f1", y, classes)
    each = [1] if classes == 2 else np.union1d(y, predicted[predicted >= 0])
    hits = [2 * int(((y == c) & (predicted == c)).sum()) for c in each]
    sums = [int((y == c).sum() + (predicted == c).sum()) for c in each]
    values = [ratio(*pair) for pair in zip(hits, sums, strict=True)]
    return float(np.mean(values)) if values else float("nan")
