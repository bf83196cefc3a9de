import numpy as np
from clients_sent import walked

from troth.server.steps.adagrad import adagrad


def test_two_steps_by_hand():
    """τ = 1, lr = 2; Δ = 3, 4: v = 9, 25, so w = 6/4, + 8/6."""
    found = walked(adagrad, np.array([[3.0], [4.0]]), lr=2.0, tau=1.0)
    np.testing.assert_allclose(found[:, 0], [1.5, 1.5 + 8 / 6], rtol=1e-12)
