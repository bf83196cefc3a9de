import numpy as np

from troth.evaluation.metrics.weighted import weighted


def test_by_hand():
    # 1 of 1, 0 of 3, 3 of 4 examples right: 4 of 8
    assert weighted(np.array([1.0, 0.0, 0.75]), np.array([1, 3, 4])) == 0.5
    assert weighted(np.array([1, 2, 6]), np.array([7, 7, 7])) == 3.0  # the mean


def test_a_missing_value_takes_its_size_along():
    assert weighted(np.array([1.0, np.nan, 0.0]), np.array([1, 100, 1])) == 0.5


def test_no_examples_no_weight():
    assert weighted(np.array([np.inf, 2.0]), np.array([0, 3])) == 2.0
    assert np.isnan(weighted(np.array([1.0, 2.0]), np.array([0, 0])))
