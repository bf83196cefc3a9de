"""Handwritten digits that come with scikit-learn.

References: alpaydin1998digits.
"""

import numpy as np

from troth.types import Arrays


def digits() -> Arrays:
    """1,797 handwritten digits of 8×8 pixels, 10 classes; needs no download.

    A pixel is 0 … 16: the number of black pixels in a square of 4×4 pixels of the
    scanned image. The digits are the test part of the original data set. They are by 13
    writers, but it is not published who wrote which digit.
    """
    from sklearn.datasets import load_digits  # slow to load

    bunch = load_digits()
    x = bunch.images.astype(np.uint8)[:, None]
    return Arrays(x, bunch.target.astype(np.int64), classes=10, scale=16.0)
