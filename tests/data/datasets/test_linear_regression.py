import math

import numpy as np
import pytest

from troth.data.datasets.linear_regression import linear_regression, truth
from troth.types import TEST, TRAIN


def test_shapes_and_marks():
    arrays = linear_regression(0, clients=3, examples=10, dim=4, test=0.2)
    assert arrays.x.shape == (30, 4) and arrays.y.shape == (30,)
    assert arrays.x.dtype == np.float64 == arrays.y.dtype
    assert arrays.classes == 0 and arrays.scale == 1
    assert np.bincount(arrays.owner).tolist() == [10, 10, 10]
    assert arrays.split[arrays.owner == 1].tolist() == [TRAIN] * 8 + [TEST] * 2
    one, same = linear_regression(0), linear_regression(0)
    assert np.array_equal(one.x, same.x) and np.array_equal(one.y, same.y)
    assert not np.array_equal(one.x, linear_regression(1).x)
    assert np.array_equal(linear_regression(0, clients=12).y[:1000], one.y)


def test_the_truth_is_found():
    arrays = linear_regression(3, clients=4, examples=20, sigma=0.0)
    w = truth(3, clients=4)
    assert w.shape == (4, 5)
    for k in range(4):
        mine = arrays.owner == k
        found = np.linalg.lstsq(arrays.x[mine], arrays.y[mine])[0]
        assert np.allclose(found, w[k], atol=1e-12)
    arrays = linear_regression(1, clients=3, examples=25, dim=4, orthogonal=True)
    for k in range(3):
        x = arrays.x[(arrays.owner == k) & (arrays.split == TRAIN)]
        assert len(x) == 20 and np.allclose(x.T @ x, 20 * np.eye(4), atol=1e-12)


def test_tau_scales_and_the_last_are_hostile():
    assert np.ptp(truth(0, tau=0.0), axis=0).max() == 0
    near, far = truth(0, tau=1.0), truth(0, tau=10.0)
    theta = truth(0, tau=0.0)
    assert np.allclose(far - theta, 10 * (near - theta))
    benign = truth(0, clients=6, tau=1.0)
    mixed = truth(0, clients=6, tau=1.0, hostile=2, tau_a=7.0)
    theta = truth(0, clients=6, tau=0.0)
    assert np.array_equal(mixed[:4], benign[:4])
    assert np.allclose(mixed[4:] - theta[4:], 7 * (benign[4:] - theta[4:]))
    options = {"clients": 6, "sigma": 0.0, "tau": 1.0, "hostile": 2, "tau_a": 7.0}
    arrays = linear_regression(0, **options, examples=10)
    assert np.allclose(arrays.y, (arrays.x * mixed[arrays.owner]).sum(1))


def test_moments():
    """Sample deviations of 4,000 normal draws: 5 standard errors, failure < 1e-6."""
    error = 5 / math.sqrt(2 * 4000)
    zeta = truth(5, clients=800, tau=0.5) - truth(5, clients=800, tau=0.0)
    assert zeta.std() == pytest.approx(0.5, rel=error)
    arrays = linear_regression(5, clients=40, examples=100, sigma=2.0)
    noise = arrays.y - (arrays.x * truth(5, clients=40)[arrays.owner]).sum(1)
    assert noise.std() == pytest.approx(2.0, rel=error)
    assert arrays.x.std() == pytest.approx(1.0, rel=error)


def test_refuses(refuses):
    for options, words in (
        ({"clients": 0}, "data.clients = 0 must be at least 1"),
        *(({"sigma": v}, f"data.sigma = {v} must be") for v in (-1.0, math.inf)),
        ({"tau": math.nan}, "data.tau = nan must be"),
        ({"test": 1.0}, "data.test = 1.0 must be a share"),
        *(({"hostile": v}, f"data.hostile = {v} must be 0 to 9") for v in (10, -1)),
        ({"hostile": 1, "tau_a": 0.5}, "data.tau_a = 0.5 must be more than data.tau"),
        ({"orthogonal": True, "dim": 81}, "data.dim = 81 training examples .* are 80"),
    ):
        refuses(words, linear_regression, 0, **options)
