import numpy as np
import pytest

from troth import theory
from troth.theory.moments import wobble
from troth.types import Refusal


def test_by_hand():
    """Rows −1, 0, 4 have variance 7; noise 1, 2, 3 takes 2 off."""
    rows, noise = np.array([[-1.0], [0.0], [4.0]]), np.array([1.0, 2.0, 3.0])
    assert theory.between(rows, noise) == pytest.approx(5)
    assert theory.between(rows, np.full(3, 8.0)) == 0
    # one adversary at 11, 10 from the center: 100 − 6 − (5 + 2)/3
    far = theory.stray(np.array([[11.0]]), np.array([6.0]), rows, noise)
    assert far == pytest.approx(100 - 6 - 7 / 3)


def sample(random, K, p, tau):
    """Estimates whose noise differs from client to client."""
    std = random.uniform(0.1, 2, K)
    rows = tau * random.standard_normal((K, p))
    return rows + std[:, None] * random.standard_normal((K, p)), p * std**2


def test_unbiased_and_its_wobble_is_right():
    """Over 800 federations: mean within 5 of its standard errors (chance < 1e-6)."""
    random = np.random.default_rng(0)
    p, tau, far = 4, 1.5, 6.0
    found, said, strays = [], [], []
    for _ in range(800):
        rows, noise = sample(random, 30, p, tau)
        bad = sample(random, 5, p, far)
        found.append(theory.between(rows, noise))
        said.append(wobble(rows, noise))
        strays.append(theory.stray(*bad, rows, noise))
    for values, truth in ((found, p * tau**2), (strays, p * far**2)):
        error = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - truth) < 5 * error
    assert np.mean(said) == pytest.approx(np.std(found), rel=0.15)


def test_groups_of_clients_are_left_out_where_there_are_many():
    rows, noise = sample(np.random.default_rng(1), 400, 3, 1.0)
    one, many = wobble(rows, noise, groups=400), wobble(rows, noise)
    assert many == pytest.approx(one, rel=0.5)
    assert wobble(rows[:2], noise[:2]) == np.inf


def test_one_client_is_refused():
    with pytest.raises(Refusal, match="1 clients have no spread"):
        theory.between(np.zeros((1, 3)), np.zeros(1))
