import math

import numpy as np
import pytest
import torch

from troth.client.solvers.fedprox import fedprox
from troth.types import Refusal

from ..hand import BOWL, OPTIMIZERS, TAILED, batch, by, sent, solved


def moved(task, way, x, steps, mu):
    """The update of a client at w = 1 that sees x in every step."""
    w = torch.ones(task.d, dtype=torch.float64)
    reply, state = solved(fedprox(task, way, mu=mu), sent(w), *[batch(x)] * steps)
    assert (reply.extra.shape, state) == ((0,), ())
    return reply.update.tolist()


def test_two_steps_by_hand():
    """1 − .1·(1 − 5) = 1.4; then 1.4 − .1·((1.4 − 5) + 2·(1.4 − 1)) = 1.68."""
    assert moved(BOWL, by(0.1), 5.0, 1, 2.0) == pytest.approx([0.4], abs=1e-12)
    assert moved(BOWL, by(0.1), 5.0, 2, 2.0) == pytest.approx([0.68], abs=1e-12)
    # a running statistic is taken all the way, and not pulled
    found = moved(TAILED, by(0.1, tail=1), 5.0, 2, 2.0)
    assert found == pytest.approx([0.68, 3.0], abs=1e-12)


def test_where_many_steps_lead():
    """To the proximal point, (x + μw)/(1 + μ) = 2; a strong pull never leaves w."""
    for optimizer in ("sgd", "momentum"):
        found = moved(BOWL, by(0.1, optimizer), 5.0, 500, 3.0)
        assert found == pytest.approx([1.0], abs=1e-9)
    assert moved(BOWL, by(1e-9), 5.0, 50, 1e9) == pytest.approx([0.0], abs=1e-7)


@pytest.mark.parametrize(
    ("lr", "mu", "optimizer", "words"),
    [
        *((0.1, mu, "sgd", f"mu = {mu} must be a fini") for mu in (-0.1, math.nan)),
        (0.1, math.inf, "sgd", "mu = inf must be a finite number of at least"),
        (
            0.1,
            20.0,
            "sgd",
            "lr·mu = 0.1·20 = 2 must stay below 2; set train.lr below 0.1",
        ),
        (1.0, 3.0, "sgd", "= 3 must stay below 2; set train.lr below 0.6666"),
        (1.0, 3.8, "momentum", "must stay below 3.8; set train.lr below 1$"),
    ],
)
def test_refusals(lr, mu, optimizer, words):
    with pytest.raises(Refusal, match=words):
        fedprox(BOWL, by(lr, optimizer), mu=mu)
    way = by(lr, optimizer)
    fedprox(BOWL, way, mu=0.999 * way.limit / lr)
    fedprox(BOWL, by(1.0, "adam"), mu=100.0)  # which has no such limit


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_mu_zero_is_fedavg_exactly(classify, optimizer):
    """And so is a single step, which starts at wᵗ, where nothing pulls."""
    train = {"optimizer": optimizer, "precision": "float32", "weight_decay": 0.01}
    for mu, how in ((0.0, train), (1.0, train | {"steps": 1, "epochs": 0})):
        for a, b in zip(
            classify(solver="fedavg", train=how).federation.train(),
            classify(
                solver={"name": "fedprox", "mu": mu}, train=how
            ).federation.train(),
            strict=True,
        ):
            assert torch.equal(a.broadcast.w, b.broadcast.w)


def test_what_float32_cannot_hold_stops_nothing(classify):
    train = {"optimizer": "adam", "precision": "float32"}
    f = classify(solver={"name": "fedprox", "mu": 1e300}, train=train).federation
    assert all(record.broadcast.w.isfinite().all() for record in f.train())


@pytest.mark.parametrize(("mu", "steps"), [(0.0, 5), (0.5, 5), (4.0, 1), (4.0, 20)])
def test_ends_where_its_updates_cancel(quadratic, mu, steps):
    """With many steps a round, μ = 0 ends far from it, and the more μ the nearer."""
    train = {"steps": steps, "rounds": 200 // steps + 100}
    w = quadratic.run(solver={"name": "fedprox", "mu": mu}, train=train)
    np.testing.assert_allclose(w, quadratic.settled(steps, mu), atol=1e-8)
    away = [quadratic.off(quadratic.settled(20, mu)) for mu in (0, 1, 4, 16)]
    assert away[0] > 0.1 and away == sorted(away, reverse=True)
