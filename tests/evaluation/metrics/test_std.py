import numpy as np

from troth.evaluation.metrics.std import std


def test_infinite_is_undefined_without_a_warning():
    assert np.isnan(std(np.array([1.0, np.inf])))
