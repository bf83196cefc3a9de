"""Expected calibration error: how far confidence is from accuracy.

References: guo2017calibration.
"""

import numpy as np

from troth.evaluation.scores import expect_classes
from troth.types import Refusal


def calibration_error(
    y: np.ndarray,
    predicted: np.ndarray,
    probability: np.ndarray,
    classes: int,
    *,
    bins: int = 15,
) -> float:
    """Compute the expected calibration error, ECE (Guo et al., Equation 3).

    ECE = Σ_b |B_b|/m · |accuracy of B_b − mean confidence of B_b|. The confidence of an
    example is the probability of its predicted class. Bin B_b holds the examples with a
    confidence in ((b − 1)/bins, b/bins]. With few examples, the value is too large.

    Args:
        y: [m] labels.
        predicted: [m] predicted labels.
        probability: [m, classes] probabilities.
        classes: number of classes.
        bins: number of bins of equal width.

    Returns:
        The error; NaN without examples. An example whose outputs are not finite has
        confidence 1 and is wrong.

    Example:
        >>> probability = np.array([[0.25, 0.75], [0.25, 0.75]])
        >>> calibration_error(np.array([1, 0]), np.array([1, 1]), probability, 2)
        0.25
    """
    expect_classes("calibration_error", y, classes)
    if bins < 1:
        raise Refusal(f"bins = {bins} of calibration_error must be at least 1")
    if not len(y):
        return float("nan")
    known = np.isfinite(probability).all(axis=1)
    sure = np.where(known, probability.max(axis=1, initial=0), 1.0)
    gap = (known & (predicted == y)) - sure
    place = np.ceil(sure * bins).astype(int).clip(1, bins)
    return float(np.abs(np.bincount(place, weights=gap)).sum() / len(y))
