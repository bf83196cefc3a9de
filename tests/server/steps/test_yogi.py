import numpy as np
import pytest
from clients_sent import walked

from troth.server.steps.adam import adam
from troth.server.steps.yogi import yogi


def test_a_square_equal_to_the_moment_leaves_it():
    """β₂ = 0: v = Δ² = 9 at once, and the same Δ again has sign 0."""
    found = walked(yogi, np.full((3, 1), 3.0), lr=1.0, beta1=0.0, beta2=0.0, tau=1.0)
    np.testing.assert_allclose(found[:, 0], [0.75, 1.5, 2.25], rtol=1e-12)


def test_forgets_a_large_update_more_slowly_than_adam():
    """After Δ = 1000, updates of 1: v falls by 0.01 a round, Adam's by a hundredth."""
    steps = np.array([1000.0] + [1.0] * 300)[:, None]
    one = walked(yogi, steps, beta1=0.0)
    two = walked(adam, steps, beta1=0.0)
    first, last = (np.diff(w[:, 0])[[0, -1]] for w in (one, two))
    assert first[0] == pytest.approx(last[0], rel=0.01)
    assert first[1] == pytest.approx(first[0], rel=1e-3) and last[1] > 4 * last[0]
