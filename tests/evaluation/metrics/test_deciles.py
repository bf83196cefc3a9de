import numpy as np
import pytest

from troth.evaluation.metrics.deciles import deciles


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 11, 100, 1234])
def test_as_numpy_has_it(n):
    values = np.random.default_rng(n).normal(size=n)
    expected = np.quantile(values, np.linspace(0, 1, 11), method="linear")
    np.testing.assert_allclose(deciles(values), expected, rtol=1e-12, atol=1e-14)


def test_an_infinite_value_spoils_only_its_own_deciles():
    values = np.array([*range(10), np.inf])
    assert deciles(values) == [*map(float, range(10)), np.inf]
