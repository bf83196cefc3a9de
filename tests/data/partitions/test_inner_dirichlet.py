import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.data.partitions.dirichlet import dirichlet
from troth.data.partitions.inner_dirichlet import inner_dirichlet
from troth.types import Arrays


def made(labels, count):
    y = np.asarray(labels, np.int64)
    return Arrays(np.zeros((len(y), 1), np.float32), y, count)


def shares(arrays, lists):
    held = [np.bincount(arrays.y[x], minlength=arrays.classes) for x in lists]
    return np.array([h / h.sum() for h in held])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.floats(1e-6, 1e6))
def test_clients_have_their_sizes_and_share_no_example(sizes, alpha):
    arrays = made(np.arange(72) ** 2 % 5, 5)
    lists = inner_dirichlet(arrays, 1, sizes=sizes, alpha=alpha)
    assert [len(x) for x in lists] == sizes
    assert len(np.unique(np.concatenate(lists))) == sum(sizes)


def test_mixtures_have_the_moments_of_the_distribution():
    """With few of many examples drawn, shares are those of Dir(alpha, …, alpha).

    A share has the mean 1/C, whatever the classes' frequencies are, and the variance
    (C − 1)/(C²(Cα + 1)). The bounds are 5 standard errors of 1,000 clients, widened by
    the sampling of 200 examples.
    """
    arrays = made(np.repeat(range(4), [300_000, 250_000, 200_000, 150_000]), 4)
    for alpha in (0.3, 2.0):
        q = shares(arrays, inner_dirichlet(arrays, 0, sizes=[200] * 1000, alpha=alpha))
        variance = 3 / (16 * (4 * alpha + 1))
        assert np.abs(q.mean(0) - 1 / 4).max() < 5 * math.sqrt(variance / 1000)
        assert np.abs(q.var(0) / variance - 1).max() < 0.2


def test_the_limits():
    arrays = made(np.arange(4000) % 4, 4)
    q = shares(arrays, inner_dirichlet(arrays, 0, sizes=[40] * 20, alpha=1e-5))
    assert (q.max(1) > 0.99).all()  # one class each, as long as there are enough
    q = shares(arrays, inner_dirichlet(arrays, 0, sizes=[400] * 10, alpha=1e5))
    assert np.abs(q - 0.25).max() < 0.15


def test_alpha_is_that_of_dirichlet_over_the_number_of_classes():
    """For equally frequent classes: the docstrings say so, and variances agree."""
    arrays = made(np.arange(400_000) % 4, 4)
    ours = shares(arrays, inner_dirichlet(arrays, 0, sizes=[200] * 1000, alpha=0.5))
    lists = dirichlet(arrays, 0, clients=1000, alpha=2.0, by="client")
    theirs = shares(arrays, lists)
    assert abs(ours.var() / theirs.var() - 1) < 0.15


@pytest.mark.parametrize(
    "options, words",
    [
        ({"sizes": [60, 41]}, "at least 1 example, and sum to at most 100"),
        ({"sizes": [5], "alpha": 0.0}, "alpha = 0.0 must be at least 1e-6 and finite"),
        ({"sizes": [5], "alpha": math.nan}, "alpha = nan must be at least 1e-6"),
    ],
)
def test_refuses(refuses, options, words):
    refuses(words, inner_dirichlet, made(np.arange(100) % 4, 4), 0, **options)
