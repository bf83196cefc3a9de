import math

import numpy as np
import pytest

from troth.data.datasets.point_estimation import point_estimation, truth
from troth.types import TEST


def test_shapes_and_truth():
    arrays = point_estimation(0, clients=3, examples=10)
    assert arrays.x.shape == (30, 1) and (arrays.x == 1).all()
    assert arrays.x.dtype == np.float64 == arrays.y.dtype and arrays.classes == 0
    assert np.bincount(arrays.owner).tolist() == [10, 10, 10]
    assert (arrays.split == TEST).sum() == 6
    arrays = point_estimation(0, clients=4, sigma=0.0, theta=3.0)
    assert np.array_equal(arrays.y, truth(0, clients=4, theta=3.0)[arrays.owner])
    one = point_estimation(0)
    assert np.array_equal(one.y, point_estimation(0).y)
    assert not np.array_equal(one.y, point_estimation(1).y)
    assert np.array_equal(point_estimation(0, clients=12).y[:1000], one.y)


def test_theta_tau_loss_and_moments():
    """Loss: equation 70 and a constant. 4,000 draws: 5 standard errors, < 1e-6."""
    assert truth(0, tau=0.0, theta=2.5).tolist() == [2.5] * 10
    assert np.allclose(truth(0, theta=2.0), truth(0) + 2)
    assert np.allclose(truth(0, tau=5.0), 10 * truth(0, tau=0.5))
    mixed = truth(0, clients=5, tau=1.0, hostile=2, tau_a=3.0)
    assert np.allclose(mixed, truth(0, clients=5, tau=1.0) * [1, 1, 1, 3, 3])
    arrays = point_estimation(2, clients=1, examples=50)
    w = np.linspace(-2, 2, 9)
    loss = 0.5 * np.square(arrays.x @ w[None] - arrays.y[:, None]).mean(0)
    assert np.ptp(loss - (0.5 * np.square(w - arrays.y.mean()))) < 1e-12
    arrays = point_estimation(1, clients=40, examples=100, sigma=2.0)
    noise = arrays.y - truth(1, clients=40)[arrays.owner]
    assert noise.std() == pytest.approx(2.0, rel=5 / math.sqrt(2 * 4000))


def test_refuses(refuses):
    for options, words in (
        ({"clients": 0}, "data.clients = 0"),
        ({"sigma": -1.0}, "data.sigma = -1.0 must be"),
        ({"theta": math.nan}, "data.theta = nan must be a finite number"),
        ({"hostile": 1, "tau_a": 0.1}, "data.tau_a = 0.1 must be more than"),
    ):
        refuses(words, point_estimation, 0, **options)
