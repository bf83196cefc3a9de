import numpy as np

from troth.evaluation.scores.recall import recall

Y, GUESS = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 0, 1])


def test_by_hand():
    assert recall(Y, GUESS, 2) == {"0": 1 / 2, "1": 2 / 3}
