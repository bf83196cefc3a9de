import numpy as np

from troth.evaluation.scores.specificity import specificity

Y, GUESS = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 0, 1])


def test_by_hand():
    assert specificity(Y, GUESS, 2) == 1 / 2


def test_outputs_that_are_not_finite_are_not_recognized():
    assert specificity(Y, np.full(5, -1), 2) == 0
