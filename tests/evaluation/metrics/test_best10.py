import numpy as np

from troth.evaluation.metrics.best10 import best10


def test_by_hand():
    twenty = np.arange(20.0)
    assert best10(twenty) == 18.5
    assert best10(twenty, higher_is_better=False) == 0.5


def test_one_client_is_the_best():
    assert best10(np.array([0.3])) == 0.3
