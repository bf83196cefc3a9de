"""Labels that a crafted model gives crafted inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax

from troth.poison import Head, labelled, probabilities, whole_numbers
from troth.types import Refusal

HEAD = Head(np.array([[1.0, 0], [0, 1], [-1, 2]]), np.array([0.0, 0.5, -0.5]))
X = np.random.default_rng(0).normal(size=(7, 2))


def test_probabilities_are_the_softmax() -> None:
    logits = X @ HEAD.weight.T + HEAD.bias
    assert probabilities(HEAD, X) == pytest.approx(softmax(logits, axis=1))
    huge = probabilities(Head(1e6 * HEAD.weight, HEAD.bias), X)
    assert np.isfinite(huge).all() and huge.sum(axis=1) == pytest.approx(np.ones(7))


def test_a_margin_is_the_logistic_function() -> None:
    one = Head(np.array([[2.0, -1]]), np.array([0.3]))
    p = probabilities(one, X)
    share = expit(X @ one.weight[0] + 0.3)
    assert p == pytest.approx(np.column_stack([1 - share, share]))
    assert one.classes == 2


def test_soft_labels() -> None:
    found = labelled(HEAD, X, 0)
    assert found.p is not None
    assert found.p == pytest.approx(probabilities(HEAD, X))
    assert np.array_equal(found.y, found.p.argmax(axis=1))
    assert np.array_equal(found.x, X)


def test_sampled_labels_have_the_probabilities() -> None:
    """60,000 draws: a share strays by 6 standard errors with probability 2e-9 each."""
    x = np.repeat(X[:2], 30_000, axis=0)
    found = labelled(HEAD, x, 4, labels="sampled")
    assert found.p is None and found.y.dtype == np.int64
    for first in (0, 30_000):
        p = probabilities(HEAD, x[first : first + 1])[0]
        share = np.bincount(found.y[first : first + 30_000], minlength=3) / 30_000
        assert np.all(np.abs(share - p) <= 6 * np.sqrt(p * (1 - p) / 30_000))
    again = labelled(HEAD, x, 4, labels="sampled")
    assert np.array_equal(found.y, again.y)
    assert not np.array_equal(found.y, labelled(HEAD, x, 5, labels="sampled").y)


def test_certain_labels_are_never_sampled_otherwise() -> None:
    sure = Head(np.array([[0.0], [1e5], [0.0]]), np.zeros(3))
    found = labelled(sure, np.ones((500, 1)), 0, labels="sampled")
    assert (found.y == 1).all()


def test_repeated_labels_by_hand() -> None:
    assert whole_numbers(np.array([[0.5, 0.3, 0.2]]), 10).tolist() == [[5, 3, 2]]
    assert whole_numbers(np.array([[0.55, 0.28, 0.17]]), 10).tolist() == [[5, 3, 2]]
    assert whole_numbers(np.full((1, 4), 0.25), 6).tolist() == [[2, 2, 1, 1]]
    found = labelled(HEAD, X[:2], 0, labels="repeated", repeats=20)
    assert found.x.shape == (40, 2) and found.p is None
    wanted = whole_numbers(probabilities(HEAD, X[:2]), 20)
    for i in range(2):
        own = found.y[(found.x == X[i]).all(axis=1)]
        assert np.bincount(own, minlength=3).tolist() == wanted[i].tolist()


@given(
    seed=st.integers(0, 10**6),
    k=st.integers(2, 12),
    repeats=st.integers(1, 400),
)
def test_whole_numbers_are_near(seed: int, k: int, repeats: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.full(k, 0.4), 6)
    counts = whole_numbers(p, repeats)
    assert (counts >= 0).all() and (counts.sum(axis=1) == repeats).all()
    assert (np.abs(counts - repeats * p) < 1 + 1e-9).all()


def test_refusals() -> None:
    with pytest.raises(Refusal, match="repeats = 0 must be at least 1"):
        labelled(HEAD, X, 0, labels="repeated", repeats=0)
    with pytest.raises(Refusal, match="the model takes 2 features"):
        labelled(HEAD, np.ones((3, 4)), 0)
    with pytest.raises(Refusal, match="NaN or infinite"):
        probabilities(Head(HEAD.weight, np.array([0, math.inf, 0])), X)
