"""Handwritten digits that come with scikit-learn.

References: alpaydin1998digits.
"""

import numpy as np

from troth.types import Arrays


def digits() -> Arrays:
    """1,797 handwritten digits of 8×8 pixels, 10 classes; needs no download.

    A pixel is 0 … 16, the number of ink pixels in a square of 4×4 finer pixels. The set
    is the test part of its source (13 writers). The writers of single digits are not
    published.
    """
    from sklearn.datasets import load_digits  # slow to load

    bunch = load_digits()
    x = bunch.images.astype(np.uint8)[:, None]
    return Arrays(x, bunch.target.astype(np.int64), classes=10, scale=16.0)
