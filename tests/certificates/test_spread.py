"""Spreads over clients, by simulations in which the truth is known."""

import numpy as np
import pytest

from troth.certificates import spread

M = 100  # test examples of a client


def scores(shares, random):
    """0 or 1 for each example: [examples, clients, repetitions]."""
    return (random.random((M, *shares.shape)) < shares).astype(float)


def means(each):
    total = each.sum(axis=0)
    n = np.full(total.shape[0], M)
    return total / M, spread.noise(total, (each**2).sum(axis=0), n)


def test_noise_is_the_variance_of_a_mean():
    random = np.random.default_rng(0)
    shares = np.tile([[0.2], [0.5], [0.97]], (1, 4000))
    mean, noise = means(scores(shares, random))
    assert mean.var(axis=1) == pytest.approx(noise.mean(axis=1), rel=0.1)
    assert noise[:, 0] == pytest.approx(mean[:, 0] * (1 - mean[:, 0]) / (M - 1))
    assert np.isnan(spread.noise(np.ones(1), np.ones(1), np.ones(1))).all()


@pytest.mark.parametrize("true", [0.0, 0.03, 0.1])
def test_the_spread_is_that_of_the_true_means(true):
    """That of the observed ones is .035 even where all clients are the same."""
    random = np.random.default_rng(1)
    shares = 0.8 + true * np.clip(random.normal(size=(400, 5)), -2, 1.9)
    mean, noise = means(scores(shares, random))
    assert (mean.std(axis=0) > shares.std(axis=0) + 0.003).all()
    assert spread.spread(mean, noise) == pytest.approx(shares.std(axis=0), abs=0.012)


@pytest.mark.parametrize("n", [4, 10, 100])
@pytest.mark.parametrize("true", [0.0, 0.04])
def test_equal_spreads_are_told_apart_by_chance_in_one_of_twenty(n, true):
    """Two models of the same clients; most examples are right or wrong in both."""
    random, times = np.random.default_rng(2), 1500
    level = random.normal(size=(n, times))
    one, two = (
        np.clip(
            0.85 + true * (0.7 * level + 0.7 * random.normal(size=(n, times))), 0, 1
        )
        for _ in range(2)
    )
    u = random.random((M, n, times))
    v = np.where(random.random(u.shape) < 0.8, u, random.random(u.shape))
    found = spread.difference(*means((u < one) * 1.0), *means((v < two) * 1.0))
    wrong = ((found.low > 0) | (found.high < 0)).mean()
    assert wrong <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / times)
    assert np.abs(found.value.mean()) < 4 * found.value.std() / np.sqrt(times)


def test_a_larger_spread_is_found():
    random = np.random.default_rng(3)
    one = np.clip(0.8 + 0.1 * random.normal(size=(40, 500)), 0, 1)
    two = np.clip(0.8 + 0.02 * random.normal(size=(40, 500)), 0, 1)
    a, b = means(scores(one, random)), means(scores(two, random))
    found = spread.difference(*a, *b)
    assert (found.low > 0).mean() > 0.9
    back = spread.difference(*b, *a)
    assert np.allclose(back.low, -found.high) and np.allclose(back.value, -found.value)
    assert found.value == pytest.approx(
        a[0].var(axis=0, ddof=1) - a[1].mean(axis=0)
        - b[0].var(axis=0, ddof=1) + b[1].mean(axis=0)
    )  # fmt: skip


def test_too_few_clients():
    assert np.isnan(spread.spread(np.ones((1, 3)), np.ones((1, 3)))).all()
    two = np.ones((2, 3))
    assert np.isnan(spread.difference(two, two, two, two).value).all()
