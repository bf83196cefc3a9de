"""On the real files; what MNIST's layout shares is in test_idx.py."""

import numpy as np
import pytest

from troth.data.datasets.fashion_mnist import SOURCE, fashion_mnist  # noqa: F401


@pytest.mark.data
def test_real_files(real):
    arrays = fashion_mnist(real)
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.x.dtype == np.uint8
    assert len(arrays.labels) == 10 and arrays.labels[9] == "Ankle boot"
    assert arrays.y[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert np.bincount(arrays.y).tolist() == [7000] * 10
    assert arrays.x[:60_000].mean() == pytest.approx(72.94, abs=0.01)
