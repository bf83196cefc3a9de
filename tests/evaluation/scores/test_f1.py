import numpy as np

from troth.evaluation.scores.f1 import f1

Y, GUESS = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 0, 1])


def test_by_hand():
    assert f1(Y, GUESS, 2) == 2 / 3  # TP 2, FP 1, FN 1


def test_outputs_that_are_not_finite_are_no_class():
    assert f1(np.array([0, 1]), np.array([-1, 1]), 3) == 1 / 2
