"""On the real files; what MNIST's layout shares is in test_idx.py."""

import numpy as np
import pytest

from troth.data.datasets.mnist import SOURCE, mnist  # noqa: F401


@pytest.mark.data
def test_real_files(real):
    arrays = mnist(real)
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.x.dtype == np.uint8
    assert arrays.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    train, test = np.split(arrays.y, [60_000])
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(train).tolist() == counts
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(test).tolist() == counts
    assert arrays.x[:60_000].mean() == pytest.approx(33.318, abs=0.001)
    assert arrays.scale == 255 and arrays.classes == 10 and arrays.owner is None
