import numpy as np

from troth.evaluation.metrics.best10 import best10


def test_by_hand():
    twenty = np.arange(20.0)
    assert best10(twenty) == 18.5
    assert best10(twenty, higher_is_better=False) == 0.5
