import numpy as np
import pytest

from troth import theory
from troth.theory.moments import interval
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


def test_unbiased_and_its_error_is_right():
    """Over 800 federations: mean within 5 of its standard errors (chance < 1e-6)."""
    random = np.random.default_rng(0)
    p, tau, far = 4, 1.5, 6.0
    found, said, strays = [], [], []
    for _ in range(800):
        rows, noise = sample(random, 30, p, tau)
        bad = sample(random, 5, p, far)
        found.append(theory.between(rows, noise))
        said.append(interval(rows, noise)[0])
        strays.append(theory.stray(*bad, rows, noise))
    for values, truth in ((found, p * tau**2), (strays, p * far**2)):
        error = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - truth) < 5 * error
    assert np.mean(said) == pytest.approx(np.std(found), rel=0.15)


@pytest.mark.parametrize("K, many", [(4, 2000), (8, 1500), (20, 1000), (100, 500)])
@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("tau", [0.0, 0.5, 1.5])
def test_interval_covers_the_truth(K, many, p, tau):
    """Coverage is at least 93 %, also where the moment is below 0 in half of the cases.

    An interval from the moments after they are cut off at 0, with two standard errors,
    has 70 to 85 % at 4 clients.
    """
    random = np.random.default_rng(7)
    found = np.array([interval(*sample(random, K, p, tau)) for _ in range(many)])
    _, low, high = found.T
    assert (found[:, 0] > 0).all()  # an estimate of 0 has an error, too
    assert np.mean((low <= p * tau**2) & (p * tau**2 <= high)) >= 0.93


def test_groups_of_clients_are_left_out_where_there_are_many():
    rows, noise = sample(np.random.default_rng(1), 400, 3, 1.0)
    one, many = interval(rows, noise, groups=400), interval(rows, noise)
    np.testing.assert_allclose(many, one, rtol=0.5)


def test_two_clients_say_nothing_and_equal_ones_are_equal():
    rows, noise = sample(np.random.default_rng(1), 2, 3, 1.0)
    assert interval(rows, noise) == (np.inf, 0.0, np.inf)
    assert interval(np.ones((5, 2)), np.zeros(5)) == (0.0, 0.0, 0.0)


def test_one_client_is_refused():
    with pytest.raises(Refusal, match="1 clients have no variance between them"):
        theory.between(np.zeros((1, 3)), np.zeros(1))
