"""The sums that cross the wire, against numpy on all values in one place."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.data.features import _sums
from troth.data.features._sums import Mean, Sums
from troth.types import Refusal


def holed(random, m, shape):
    """Values around means of very different sizes, some of them missing."""
    center = 10.0 ** random.integers(-3, 7, size=shape)
    x = center * (1 + random.normal(size=(m, *shape)))
    x[random.random(x.shape) < random.choice([0.0, 0.3, 0.9, 1.0])] = np.nan
    return x


@st.composite
def federations(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.sampled_from([(1,), (5,), (2, 3)]))
    sizes = draw(st.lists(st.integers(0, 30), min_size=1, max_size=6))
    return [holed(random, m, shape) for m in sizes]


@given(federations())
def test_pooled_sums_are_nanmean_and_nanstd_of_all_values(each):
    whole = np.concatenate(each)
    first = _sums.mean([_sums.sums(x) for x in each])
    second = _sums.mean([_sums.sums(_sums.squares(x, first.value)) for x in each])
    found = _sums.statistics(first, second, first.value, True, True)
    seen = (~np.isnan(whole)).sum(axis=0)
    assert (first.number == seen).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # features without a value
        mean, std = np.nanmean(whole, axis=0), np.nanstd(whole, axis=0)
    np.testing.assert_allclose(found.mean, np.where(seen > 0, mean, 0), rtol=1e-12)
    varied = seen > 1
    np.testing.assert_allclose(found.std[varied], std[varied], rtol=1e-12)
    assert (found.std[~varied] == 1).all() and (found.constant == ~varied).all()


@given(federations(), st.integers(1, 5))
def test_withheld_features_are_as_if_missing(each, least):
    for x in each:
        few = (~np.isnan(x)).sum(axis=0) < least
        expected = _sums.sums(np.where(few, np.nan, x))
        for found, value in zip(_sums.sums(x, least), expected, strict=True):
            assert (found == value).all()


def test_a_constant_is_one_whatever_its_sums_round_to():
    for value in (0.1, -1e9, 1.6e9 + 0.1, 1e-30, 0.0):
        x = np.full((100_000, 1), value)
        first = _sums.mean([_sums.sums(x), _sums.sums(x[:17])])
        apart = [_sums.sums(_sums.squares(part, first.value)) for part in (x, x[:17])]
        found = _sums.statistics(first, _sums.mean(apart), first.value, True, True)
        assert found.constant.all() and (found.std == 1).all()


def test_spread_center_and_scale():
    """Squares minus the square of the mean would lose every digit here."""
    x = 1e9 + np.array([[0.0], [1.0], [2.0]])
    first = _sums.mean([_sums.sums(x)])
    second = _sums.mean([_sums.sums(_sums.squares(x, first.value))])
    found = _sums.statistics(first, second, first.value, True, True)
    assert found.std == pytest.approx(np.sqrt(2 / 3), rel=1e-15)
    assert not found.constant.any()
    first, second = Mean(np.array([4.0]), np.array([3.0])), Mean(*np.array([[4], [9]]))
    fill = np.array([7.0])
    for center in (True, False):
        for scale in (True, False):
            found = _sums.statistics(first, second, fill, center, scale)
            assert found.fill == 7 and found.mean == (3 if center else 0)
            assert found.std == (3 if scale else 1)


GOOD = Sums(np.array([3, 2]), np.array([6.0, -4.0]))


def test_what_is_no_sum_is_left_out_and_nobody_stands_alone(refuses):
    for number, total in (
        ([3, 2], [np.nan, 0.0]),
        ([-1, 2], [1.0, 0.0]),
        ([3], [1.0]),
        ([3, 2], [[1.0, 2.0]]),
    ):
        bad = Sums(np.array(number), np.array(total))
        found = _sums.pooled([GOOD, bad, GOOD], (2,))
        assert found.number.tolist() == [6, 4]
        assert found.value.tolist() == [2.0, -2.0]
        with pytest.raises(Refusal, match="over 1 client would reveal that client's"):
            _sums.pooled([GOOD, bad], (2,))
    refuses("over 0 clients.*at least 2 clients", _sums.pooled, [], (2,))
    few = Sums(np.array([1, 1]), np.array([1.0, 1.0]))  # squares are not negative
    assert _sums.pooled([few, GOOD, few], (2,), lowest=0.0).number.tolist() == [2, 2]
    lone = Sums(np.array([3, 0]), np.array([6.0, 0.0]))
    with pytest.raises(Refusal, match=r"1 of the features \(1\) have enough values at"):
        _sums.pooled([GOOD, lone, lone], (2,))
    with pytest.raises(Refusal, match=r"1 of the features \(age\)"):
        _sums.pooled([GOOD, lone], (2,), ("sex", "age"))
    wide = Sums(np.ones((2, 3)), np.ones((2, 3)))
    none = Sums(np.zeros((2, 3)), np.zeros((2, 3)))
    refuses(r"6 of the features \(0, 1, 2, 3 …\)", _sums.pooled, [wide, none], (2, 3))
    assert _sums.pooled([lone, lone], (2,)).number.tolist() == [6, 0]  # nobody has it
