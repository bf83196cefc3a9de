import numpy as np
import pytest

from troth.evaluation.metrics.worst10 import worst10


@pytest.mark.parametrize(
    ("n", "expected"), [(1, 0.0), (9, 0.0), (10, 0.0), (11, 0.5), (20, 0.5), (21, 1.0)]
)
def test_a_tenth_is_rounded_up(n, expected):
    assert worst10(np.arange(float(n))) == expected


def test_one_infinite_loss_is_the_worst():
    assert worst10(np.array([1.0, np.inf]), higher_is_better=False) == np.inf
    assert worst10(np.array([1.0, np.inf])) == 1.0
