import numpy as np
import pytest

from troth.evaluation.metrics.weighted import weighted
from troth.types import Refusal


def test_by_hand():
    # 1 of 1, 0 of 3, 3 of 4 examples right: 4 of 8
    assert weighted(np.array([1.0, 0.0, 0.75]), np.array([1, 3, 4])) == 0.5


def test_a_missing_value_takes_its_size_along():
    assert weighted(np.array([1.0, np.nan, 0.0]), np.array([1, 100, 1])) == 0.5


def test_no_examples_no_weight():
    assert weighted(np.array([np.inf, 2.0]), np.array([0, 3])) == 2.0
    assert np.isnan(weighted(np.array([1.0, 2.0]), np.array([0, 0])))


def test_equal_sizes_give_the_mean():
    assert weighted(np.array([1, 2, 6]), np.array([7, 7, 7])) == 3.0


@pytest.mark.parametrize("size", [[1], [1, -1], [1, np.nan], [1, np.inf]])
def test_refuses_sizes_that_weigh_nothing(size):
    with pytest.raises(Refusal, match="one size ≥ 0 a client"):
        weighted(np.array([1.0, 2.0]), np.array(size))
