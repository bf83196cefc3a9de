import numpy as np

from troth.evaluation.scores.specificity import specificity

Y, GUESS = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 0, 1])


def test_by_hand():
    assert specificity(Y, GUESS, 2) == 1 / 2
