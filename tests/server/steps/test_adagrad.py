import numpy as np
from clients_sent import walked

from troth.server.steps.adagrad import adagrad


def test_two_steps_by_hand():
    """τ = 1, lr = 2; Δ = 3, 4: v = 9, 25, so w = 6/4, + 8/6."""
    found = walked(adagrad, np.array([[3.0], [4.0]]), lr=2.0, tau=1.0)
    np.testing.assert_allclose(found[:, 0], [1.5, 1.5 + 8 / 6], rtol=1e-12)


def test_steps_shrink_as_they_add_up():
    """Equal updates: the t-th step is lr/√t, for all coordinates."""
    steps = np.tile([1e-3, 1.0, 1e3], (100, 1))
    found = np.diff(walked(adagrad, steps, lr=0.1, tau=1e-12), axis=0)
    expected = 0.1 / np.sqrt(np.arange(2, 101))
    np.testing.assert_allclose(found, expected[:, None].repeat(3, 1), rtol=1e-8)
