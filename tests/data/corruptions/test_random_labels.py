import numpy as np
import torch
from scipy import stats

from troth import seeding
from troth.data.corruptions.random_labels import random_labels

RARE = 1e-9  # how often a right generator fails a statistical test here


def key(client=0):
    return seeding.keys(0, "corruption", 0, torch.tensor(client))


def assert_uniform(found, classes):
    counts = np.bincount(found.numpy(), minlength=classes)
    assert len(counts) == classes and stats.chisquare(counts).pvalue > RARE


def test_true_labels_decide_nothing_and_come_up_by_chance():
    """A tenth of them; fails with probability 1e-9."""
    y = torch.arange(50_000) % 10
    _, found = random_labels(torch.zeros(50_000, 1), y, 10, key())
    assert_uniform(found, 10)
    kept = int((found == y).sum())
    assert stats.binomtest(kept, 50_000, 0.1).pvalue > RARE and kept > 0
    x = torch.zeros(100, 1)
    assert not random_labels(x, y[:100], 1, key())[1].any()  # one leaves no choice
    a = random_labels(x, torch.zeros(100, dtype=torch.long), 10, key())[1]
    assert torch.equal(a, random_labels(x, torch.arange(100) % 10, 10, key())[1])


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
