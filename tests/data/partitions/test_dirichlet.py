import math

import numpy as np
import pytest

from troth.data.partitions.dirichlet import dirichlet
from troth.types import TEST, TRAIN, Arrays, Refusal

WAYS = ("class", "client")


def made(labels, count, marks=None):
    y = np.asarray(labels, np.int64)
    split = None if marks is None else np.asarray(marks, np.int8)
    return Arrays(np.zeros((len(y), 1), np.float32), y, count, split=split)


def held(arrays, lists):
    """[n, classes] how many examples of each class each client holds."""
    return np.array([np.bincount(arrays.y[x], minlength=arrays.classes) for x in lists])


def test_a_large_alpha_deals_all_classes_alike():
    """Shares are within 1 % and rounding; by client, drawn: 6 standard deviations."""
    for by in WAYS:
        arrays = made(np.arange(20_000) % 4, 4)
        lists = dirichlet(arrays, 0, clients=10, alpha=1e6, by=by)
        off = 6 if by == "class" else 6 * math.sqrt(500)
        assert np.abs(held(arrays, lists) - 500).max() <= off


def test_a_small_alpha_keeps_classes_whole():
    """By class each is on one client; by client each of ten has one class."""
    for by, n in (("class", 5), ("client", 10)):
        arrays = made(np.arange(1000) % 10, 10)
        lists = dirichlet(arrays, 0, clients=n, alpha=1e-6, by=by, min_size=0)
        shares = held(arrays, lists)
        assert ((shares == 100).sum(axis=0) == 1).all() and (shares > 0).sum() == 10
        assert by == "class" or (shares.sum(axis=1) == 100).all()


def test_shares_by_class_have_the_moments_of_the_distribution():
    """p_ck ~ Beta(alpha, (n−1)·alpha): mean 1/n, variance (n−1)/(n²(n·alpha+1)).

    2,000 classes of 1,000 over n = 4 clients, alpha = 0.5: variance 1/16. The variance
    of 2,000 squares of numbers below 1 is known to 5 · 0.1/√2000 = 0.011, p < 1e-6;
    rounding adds less than 0.001.
    """
    arrays = made(np.repeat(np.arange(2000), 1000), 2000)
    share = held(arrays, dirichlet(arrays, 0, clients=4, alpha=0.5)) / 1000
    assert abs(share[0].mean() - 0.25) < 5 * 0.25 / math.sqrt(2000)
    assert abs(((share[0] - 0.25) ** 2).mean() - 1 / 16) < 0.012


def test_mixes_by_client_have_the_moments_of_the_distribution():
    """q_kc ~ Beta(alpha·p, alpha·(1−p)): variance p(1−p)/(alpha+1), p = ¼, alpha = 3.

    The first clients served are not short of any class: with 2,000 clients of 50
    examples, squares in [0, 1], the tolerance of 5 standard errors is 0.01. The
    multinomial adds q(1−q)/50 < 0.004; late clients make do with what is left, which
    may take as much away.
    """
    arrays = made(np.arange(100_000) % 4, 4)
    lists = dirichlet(arrays, 0, clients=2000, alpha=3.0, by="client")
    share = held(arrays, lists) / 50
    assert {len(x) for x in lists} == {50}
    assert abs(((share[:, 0] - 0.25) ** 2).mean() - 3 / 64) < 0.018


def test_test_examples_follow_the_training_examples():
    """600 + 100 of each class: a client's shares of both are the same vector's."""
    for by in WAYS:
        marks = np.repeat([TRAIN, TEST], [6000, 1000])
        arrays = made(np.arange(7000) % 10, 10, marks)
        lists = dirichlet(arrays, 0, clients=10, by=by)
        parts = ([x[arrays.split[x] == mark] for x in lists] for mark in (TRAIN, TEST))
        train, test = (held(arrays, part) for part in parts)
        assert test.sum(axis=1).min() >= 1
        if by == "class":
            assert np.abs(test - train / 6).max() < 2
        else:
            assert set(train.sum(axis=1)) == {600} and set(test.sum(axis=1)) == {100}
            assert np.corrcoef(train.ravel(), test.ravel())[0, 1] > 0.8


def test_clients_hold_at_least_the_least():
    """Without it some client holds fewer than 10 in about half of the draws."""
    arrays = made(np.arange(2000) % 10, 10)
    options = {"clients": 20, "alpha": 0.2}
    for size in (0, 10):
        lists = [dirichlet(arrays, s, **options, min_size=size) for s in range(20)]
        assert (min(len(x) for each in lists for x in each) >= 10) == (size == 10)
    arrays = made([0, 2] * 50, 4)
    for by in WAYS:
        lists = dirichlet(arrays, 0, clients=3, by=by, min_size=1)
        assert held(arrays, lists).sum(axis=0).tolist() == [50, 0, 50, 0]


PLAIN = made(np.arange(100) % 10, 10)


def test_refuses(refuses):
    for options, words in (
        ({"clients": 101}, "partition.clients = 101 must be 1 to 100"),
        ({"clients": 11}, "min_size = 10 must be 0 to 9, for there are 100 examples"),
        ({"clients": 5, "min_size": -1}, "min_size = -1 must be 0 to 20"),
        ({"clients": 5, "alpha": 0.0}, "alpha = 0.0 must be 1e-06 to 1e.06: small"),
        ({"clients": 5, "alpha": math.nan}, "alpha = nan must be"),
    ):
        refuses(words, dirichlet, PLAIN, 0, **options)
    x = np.zeros((20, 1), np.float32)
    for y, count, words in (
        (np.arange(20.0), 0, "'dirichlet' needs .* these are a regression: use the"),
        (
            np.ones((20, 3), int),
            3,
            "labels and these have several per example: use the",
        ),
    ):
        for by in WAYS:
            refuses(words, dirichlet, Arrays(x, y, count), 0, clients=2, by=by)


def test_gives_up_and_the_remedy_works():
    options = {"clients": 9, "alpha": 0.01}
    with pytest.raises(Refusal, match="drew 1000 times with alpha = 0.01 and cl") as e:
        dirichlet(PLAIN, 0, **options)
    best = int(str(e.value).split("never held more than ")[1].split()[0])
    assert f"set partition.min_size (10) to {best} or less" in str(e.value)
    assert len(dirichlet(PLAIN, 0, **options, min_size=best)) == 9
