"""All clients alike, from sums."""

import numpy as np
import pytest

from troth.config import reader
from troth.data.features.federated import federated
from troth.types import Refusal


def test_by_hand():
    a, b = np.array([[1.0], [3.0]]), np.array([[5.0], [np.nan], [7.0]])
    found = federated([a, b])
    assert found.mean == 4 and found.fill == 4 and not found.constant
    assert found.std == np.sqrt((9 + 1 + 1 + 9) / 4)
    each = [np.arange(8.0).reshape(4, 2), np.ones((2, 2))]
    assert (federated(each, impute="zero").fill == 0).all()
    assert (federated(each, center=False).mean == 0).all()
    assert (federated(each, scale=False).std == 1).all()
    x = np.array([[1.0, np.nan], [2.0, np.nan]])
    found = federated([x, x])
    assert (found.fill[1], found.mean[1], found.std[1]) == (0, 0, 1)
    assert found.constant.tolist() == [False, True]


def test_only_sums_matter():
    """Other values with the same counts, sums and squares: the same, bit for bit."""
    a, twin = np.array([[1.0], [5.0], [6.0]]), np.array([[2.0], [3.0], [7.0]])
    b, more = np.array([[3.0], [5.0]]), np.array([[np.nan], [5.0], [3.0]])
    assert (a.sum(), (a**2).sum()) == (twin.sum(), (twin**2).sum())
    for one, other in zip(federated([a, b]), federated([twin, more]), strict=True):
        assert (one == other).all()
    a, b, c = np.array([[1.0], [3.0]]), np.array([[5.0], [7.0]]), np.array([[100.0]])
    assert federated([a, b, c]).mean == federated([a, b]).mean == 4
    assert federated([a, b, c], min_values=1).mean == 116 / 5
    assert federated([a, b, np.array([[-50.0], [np.nan], [np.nan]])]).mean == 4


def test_refusals(refuses):
    x = np.arange(6.0).reshape(3, 2)
    refuses("'federated' over 1 client would reveal", federated, [x])
    half = np.where([False, True], np.nan, x)
    with pytest.raises(Refusal, match=r"1 of the features \(chol\) have enough values"):
        federated([x, half, half], ["age", "chol"])
    with pytest.raises(Refusal, match="features.min_values = 0 must be at least 1"):
        federated([x, x], min_values=0)
    with pytest.raises(Refusal, match="min_values = 4 is more than any client has"):
        federated([x, x], min_values=4)
    with pytest.raises(Refusal, match="features.impute = 'median' is not one of"):
        reader.from_dict({"features": {"name": "federated", "impute": "median"}})
