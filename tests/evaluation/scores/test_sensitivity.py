import numpy as np

from troth.evaluation.scores.sensitivity import sensitivity

Y, GUESS = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 0, 1])


def test_by_hand():
    assert sensitivity(Y, GUESS, 2) == 2 / 3
