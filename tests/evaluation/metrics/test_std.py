import numpy as np

from troth.evaluation.metrics.std import std


def test_by_hand_is_the_population_s():
    # mean 5, squared distances 9 1 1 1 0 0 4 16: their mean is 4
    assert std(np.array([2.0, 4, 4, 4, 5, 5, 7, 9])) == 2.0
    assert std(np.array([0.7])) == 0.0


def test_infinite_is_undefined_without_a_warning():
    assert np.isnan(std(np.array([1.0, np.inf])))
