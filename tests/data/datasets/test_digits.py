import numpy as np

from troth.data.datasets.digits import digits


def test_is_what_scikit_learn_has():
    arrays = digits()
    assert arrays.x.shape == (1797, 1, 8, 8) and arrays.x.dtype == np.uint8
    assert arrays.y.shape == (1797,) and arrays.y.dtype == np.int64
    assert arrays.classes == 10 and arrays.scale == 16 == arrays.x.max()
    assert np.array_equal(np.unique(arrays.y), np.arange(10))
    assert arrays.owner is None and arrays.split is None
    arrays = digits()
    assert arrays.y[0] == 0
    assert arrays.x[0, 0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
