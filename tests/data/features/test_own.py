"""Every client by its own training data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from troth.config import reader
from troth.data.features.own import own
from troth.types import Refusal


def draw(seed, sizes, k=4):
    random = np.random.default_rng(seed)
    each = [random.normal(3 * i, 1 + i, size=(m, k)) for i, m in enumerate(sizes)]
    for x in each:
        x[1:][random.random((len(x) - 1, k)) < 0.3] = np.nan  # one value is there
    return each


@given(st.integers(0, 2**32), st.lists(st.integers(1, 20), min_size=1, max_size=4))
@pytest.mark.parametrize("impute", ["mean", "median"])
def test_what_scikit_learn_does_for_each_client_alone(impute, seed, sizes):
    each = draw(seed, sizes)
    found = own(each, impute=impute)
    for k, x in enumerate(each):
        scaler = StandardScaler().fit(x)
        filled = SimpleImputer(strategy=impute).fit(x)
        np.testing.assert_allclose(found.mean[k], scaler.mean_, rtol=1e-12)
        np.testing.assert_allclose(found.std[k], scaler.scale_, rtol=1e-12)
        np.testing.assert_allclose(found.fill[k], filled.statistics_, rtol=1e-12)


def test_options():
    each = draw(2, [8, 8])
    assert (own(each, impute="zero").fill == 0).all()
    assert (own(each, center=False).mean == 0).all()
    assert (own(each, scale=False).std == 1).all()
    lacking = [np.where([True, False, False, False], np.nan, x) for x in each]
    assert (own(lacking, impute="median").fill[:, 0] == 0).all()
    with pytest.raises(Refusal, match="features.impute = 'mode' is not one of 'mean'"):
        reader.from_dict({"features": {"name": "own", "impute": "mode"}})
    x = np.random.default_rng(0).normal(size=(2, 10, 3, 4))
    found = own(list(x))
    assert all(values.shape == (2, 3, 4) for values in found)
    flat = own([values.reshape(10, 12) for values in x])
    assert (found.std.reshape(2, 12) == flat.std).all()
    there, none = np.array([[1.0, np.nan], [3.0, 5.0]]), np.zeros((0, 2))
    found = own([there, none], impute="median")
    assert found.fill.tolist() == [[2.0, 5.0], [0.0, 0.0]]
    assert found.mean[1].tolist() == [0.0, 0.0]
    assert found.std[1].tolist() == [1.0, 1.0]
