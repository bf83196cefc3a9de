import numpy as np
import torch
from scipy import stats

from troth import seeding
from troth.data.corruptions.random_labels import random_labels

RARE = 1e-9  # how often a right generator fails a statistical test here


def key(client=0, seed=0):
    return seeding.keys(seed, "corruption", 0, torch.tensor(client))


def labels(m, classes, of):
    y = torch.zeros(m, dtype=torch.long)
    return random_labels(torch.zeros(m, 1), y, classes, of)[1]


def assert_uniform(found, classes):
    counts = np.bincount(found.numpy(), minlength=classes)
    assert len(counts) == classes
    assert stats.chisquare(counts).pvalue > RARE


def test_uniform_over_all_classes():
    """Fails by chance with probability 1e-9, for each number of classes."""
    for classes in (2, 3, 10, 62):
        assert_uniform(labels(100_000, classes, key()), classes)
    assert not labels(50, 1, key()).any()  # one class leaves no choice


def test_uniform_over_clients():
    """The first label of each of 5,000 clients; fails with probability 1e-9."""
    keys = seeding.keys(0, "corruption", 0, torch.arange(5000))
    assert_uniform(torch.cat([labels(1, 10, one) for one in keys]), 10)


def test_neighbors_do_not_depend_on_each_other():
    """Pairs of labels are uniform over 100 cells; fails with probability 1e-9."""
    found = labels(100_000, 10, key())
    assert_uniform(found[0::2] * 10 + found[1::2], 100)


def test_true_labels_come_up_by_chance():
    """A tenth of them; fails with probability 1e-9."""
    y = torch.arange(50_000) % 10
    _, found = random_labels(torch.zeros(50_000, 1), y, 10, key())
    kept = int((found == y).sum())
    assert stats.binomtest(kept, 50_000, 0.1).pvalue > RARE
    assert kept > 0


def test_the_true_labels_decide_nothing():
    x = torch.zeros(100, 1)
    a = random_labels(x, torch.zeros(100, dtype=torch.long), 10, key())[1]
    b = random_labels(x, torch.arange(100) % 10, 10, key())[1]
    assert torch.equal(a, b)


def test_several_labels_are_each_a_fair_coin():
    """Eight patterns of three labels are alike; fails with probability 1e-9."""
    y = torch.ones(40_000, 3, dtype=torch.long)
    x = torch.zeros(40_000, 1)
    kept, found = random_labels(x, y, 3, key())
    assert kept is x and found.shape == y.shape and found.dtype == y.dtype
    assert {*found.unique().tolist()} == {0, 1}
    assert_uniform(found @ torch.tensor([1, 2, 4]), 8)
    assert bool((y == 1).all())
    assert not torch.equal(found, random_labels(x, y, 3, key(1))[1])
