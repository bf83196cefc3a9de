import numpy as np

from troth.evaluation.metrics.weighted import weighted


def test_a_missing_value_takes_its_size_along():
    assert weighted(np.array([1.0, np.nan, 0.0]), np.array([1, 100, 1])) == 0.5


def test_no_examples_no_weight():
    assert weighted(np.array([np.inf, 2.0]), np.array([0, 3])) == 2.0
    assert np.isnan(weighted(np.array([1.0, 2.0]), np.array([0, 0])))
