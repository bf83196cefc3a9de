import numpy as np

from troth.evaluation.metrics.mean import mean


def test_sums_in_double_precision():
    tenths = np.full(1_000_000, 0.1, dtype=np.float32)
    assert abs(mean(tenths) - float(np.float32(0.1))) < 1e-12


def test_infinite_values_need_no_warning():
    assert mean(np.array([1.0, np.inf])) == np.inf
    assert np.isnan(mean(np.array([-np.inf, np.inf])))
