import numpy as np
import pytest
import torch

from troth import lookup
from troth.client.personalizers.ditto_finetune import ditto_finetune
from troth.client.regularizers.l2sq import l2sq

from ..hand import BOWL, batch, by, number, sent, worked
from ..small import built, done, quadratics


@pytest.mark.parametrize(("steps", "expected"), [(1, 1.4), (2, 1.64)])
def test_two_steps_by_hand(steps, expected):
    """From w* = 1, x = 5: 1.4, for nothing pulls at w*; 1.4 − .1·(−3.6 + 3·.4)."""
    one = ditto_finetune(BOWL, by(0.1), l2sq(), None, lam=3.0)
    start, w = one.init(number(-9.0)), number(1.0)
    assert one.model(w, start) == w
    reply, state = worked(one.finish, start, sent(w), *[batch(5.0)] * steps)
    assert one.model(number(7.0), state).item() == pytest.approx(expected)
    assert reply.update.item() == pytest.approx(expected - 1)


@pytest.mark.parametrize("lam", [0.1, 1.0, 5.0])
def test_ends_at_the_minimizer_of_its_objective(lam):
    """argmin F_k(v) + λ/2·‖v − w*‖² = (A + λI)⁻¹(b + λw*), w* any."""
    own = {"name": "ditto_finetune", "lam": lam, "steps": 300, "lr": 0.15}
    found = quadratics(own, 3, lr=0.1, steps=2)
    for v, a, b in zip(found.v, found.a, found.b, strict=True):
        expected = np.linalg.solve(a + lam * np.eye(3), b + lam * found.w)
        np.testing.assert_allclose(v, expected, rtol=0, atol=1e-6)
        assert np.abs(v - found.w).max() > 1e-2


def test_a_strong_pull_is_the_shared_model(tree):
    own = {"name": "ditto_finetune", "lam": 1e6, "lr": 1e-6, "steps": 20}
    made = built(tree("linear", own))
    assert (done(made) - made.federation.broadcast.w).abs().max() < 1e-5


@pytest.mark.parametrize("name", lookup.names("regularizer"))
def test_any_regularizer_holds_it_back(tree, name):
    how = {"steps": 6, "lr": 0.05}
    held = {"name": "ditto_finetune", "lam": 1.0} | how
    made = built(tree("linear", held, regularizer=name))
    v, free = done(made), done(built(tree("linear", {"name": "finetune"} | how)))
    far, farther = ((u - made.federation.broadcast.w).norm(dim=1) for u in (v, free))
    assert (far < farther).all()
    assert v.isfinite().all() and not torch.allclose(v, free, 0, 1e-6)
