import numpy as np
import pytest

from troth.evaluation.scores.calibration_error import calibration_error


def by_hand(y, probability, bins):
    """Equation 3 of Guo et al., bin by bin."""
    sure, guess = probability.max(axis=1), probability.argmax(axis=1)
    total = 0.0
    for b in range(bins):
        inside = (sure > b / bins) & (sure <= (b + 1) / bins)
        if inside.any():
            right = (guess == y)[inside].mean()
            total += inside.mean() * abs(right - sure[inside].mean())
    return total


@pytest.mark.parametrize("bins", [1, 2, 15])
def test_as_defined(bins):
    draw = np.random.default_rng(bins)
    probability = draw.dirichlet(np.ones(4), 200)
    y = draw.integers(0, 4, 200)
    found = calibration_error(y, probability.argmax(1), probability, 4, bins=bins)
    assert found == pytest.approx(by_hand(y, probability, bins))


def test_limits(refuses):
    y, sure = np.array([0, 1]), np.eye(2)
    assert calibration_error(y, y, sure, 2) == 0
    assert calibration_error(y, 1 - y, sure[::-1], 2) == 1
    unknown = np.full((2, 2), np.nan)
    assert calibration_error(y, np.array([-1, -1]), unknown, 2) == 1
    refuses("bins = 0", lambda: calibration_error(y, y, sure, 2, bins=0))
