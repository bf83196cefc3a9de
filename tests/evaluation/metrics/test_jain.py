import numpy as np
import pytest

from troth.evaluation.metrics.jain import jain


def test_by_hand():
    assert jain(np.array([1.0, 2.0, 3.0])) == pytest.approx(36 / (3 * 14))
    assert jain(np.zeros(3)) == 1.0


@pytest.mark.parametrize("unit", [1e-300, 1e-3, 1e3, 1e300])
def test_the_unit_does_not_matter(unit):
    x = np.array([1.0, 2.0, 3.0])
    assert jain(unit * x) == pytest.approx(jain(x))


def test_infinite_is_undefined_without_a_warning():
    assert np.isnan(jain(np.array([1.0, np.inf])))
