from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.client import descent
from troth.client.solvers.fedprox import fedprox
from troth.config.schema import Part
from troth.types import Batch, Broadcast, Descent, Refusal, Task


def loss(v: Tensor, batch: Batch) -> Tensor:
    return (batch.weight * 0.5 * (v - batch.x).square()).sum()


MEAN = Task(1, 0, loss, torch.func.grad(loss), lambda v, x: v.expand(len(x)))
"""The estimation of a mean: F(v) = ½ Σ weight·(v − x)²."""


def sgd(lr: float = 0.1, optimizer: str = "sgd", tail: int = 0) -> Descent:
    part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
    return descent(part, lr, 0.0, tail)


def moved(task: Task, way: Descent, x: float, steps: int, **options: Any) -> Tensor:
    """The update of a client at w = 1 that sees x in every step."""
    solver = fedprox(task, way, **options)
    w = torch.ones(task.d, dtype=torch.float64)
    sent = Broadcast(w, w[:0], w.new_ones(()))
    point, zero = torch.full((1,), x, dtype=torch.float64), torch.tensor(0)
    batch = Batch(point, point, torch.ones_like(point), zero, zero + 1)
    carry = solver.begin(sent, solver.init(w))
    for _ in range(steps):
        carry = solver.step(sent, carry, batch)
    reply, state = solver.end(sent, carry, ())
    assert (reply.extra.shape, state, solver.extra) == ((0,), (), 0)
    return reply.update


def test_two_steps_by_hand() -> None:
    """1 − .1·(1 − 5) = 1.4; then 1.4 − .1·((1.4 − 5) + 2·(1.4 − 1)) = 1.68."""
    assert moved(MEAN, sgd(), 5.0, 1, mu=2.0).item() == pytest.approx(0.4, abs=1e-12)
    assert moved(MEAN, sgd(), 5.0, 2, mu=2.0).item() == pytest.approx(0.68, abs=1e-12)


def test_many_steps_end_at_the_proximal_point() -> None:
    """(x + μw)/(1 + μ) = (5 + 3)/4 = 2."""
    for optimizer in ("sgd", "momentum"):
        way = sgd(optimizer=optimizer)
        assert moved(MEAN, way, 5.0, 500, mu=3.0).item() == pytest.approx(1, abs=1e-9)


def test_a_strong_pull_never_leaves_the_shared_model() -> None:
    assert abs(moved(MEAN, sgd(1e-9), 5.0, 50, mu=1e9).item()) < 1e-7


def test_running_statistics_are_not_pulled() -> None:
    """Of two numbers, the second is a statistic that a step takes all the way."""

    def grad(v: Tensor, batch: Batch) -> Tensor:
        return torch.stack([v[0] - batch.x[0], 0.5 * (v[1] - batch.x[0])])

    task = MEAN._replace(d=2, grad=grad, tail=1)
    found = moved(task, sgd(tail=1), 5.0, 2, mu=2.0)
    assert found.tolist() == pytest.approx([0.68, 3.0], abs=1e-12)


# Over whole federations


@pytest.mark.parametrize("optimizer", lookup.names("optimizer"))
def test_mu_zero_is_fedavg_exactly(classify: Any, optimizer: str) -> None:
    train = {"optimizer": optimizer, "precision": "float32", "weight_decay": 0.01}
    found = []
    for solver in ("fedavg", {"name": "fedprox", "mu": 0.0}):
        f = classify(solver=solver, train=train).federation
        found.append([record.broadcast.w for record in f.train()])
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_one_step_is_fedavgs(classify: Any) -> None:
    """The first step of a round starts at wᵗ, where nothing pulls."""
    found = []
    for solver in ("fedavg", {"name": "fedprox", "mu": 5.0}):
        f = classify(solver=solver, train={"steps": 1, "epochs": 0}).federation
        found.append(list(f.train())[-1].broadcast.w)
    assert torch.equal(*found)


@pytest.mark.parametrize("mu", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("steps", [1, 5])
def test_ends_where_its_updates_cancel(quadratic: Any, mu: float, steps: int) -> None:
    solver = {"name": "fedprox", "mu": mu}
    w = quadratic.run(
        solver=solver, train={"steps": steps, "rounds": 200 // steps + 40}
    )
    np.testing.assert_allclose(w, quadratic.settled(steps, mu), atol=1e-8)


def test_pulls_towards_the_minimiser_of_all(quadratic: Any) -> None:
    """With many steps a round, μ = 0 ends far from it, and the more μ the nearer."""
    best = quadratic.best()
    off = [np.linalg.norm(quadratic.settled(20, mu) - best) for mu in (0, 1, 4, 16)]
    assert off[0] > 0.1 and off == sorted(off, reverse=True)
    w = quadratic.run(
        solver={"name": "fedprox", "mu": 4.0}, train={"steps": 20, "rounds": 110}
    )
    assert np.linalg.norm(w - best) == pytest.approx(off[2], abs=1e-6)


# Refusals


@pytest.mark.parametrize("mu", [-0.1, math.nan, math.inf])
def test_refuses_what_is_no_weight(mu: float) -> None:
    with pytest.raises(Refusal, match=f"mu = {mu} must be a finite number of at least"):
        fedprox(MEAN, sgd(), mu=mu)


@pytest.mark.parametrize(
    ("lr", "mu", "optimizer", "words"),
    [
        (
            0.1,
            20.0,
            "sgd",
            r"lr·mu = 0.1·20 = 2 must stay below 2; .* below 2/20 = 0.1,",
        ),
        (1.0, 3.0, "sgd", r"= 3 must .* set train.lr below 2/3 = 0.6667, or solver.mu"),
        (1.0, 3.8, "momentum", r"must stay below 3.8; set train.lr below 3.8/3.8 = 1,"),
    ],
)
def test_refuses_a_step_that_diverges(
    lr: float, mu: float, optimizer: str, words: str
) -> None:
    with pytest.raises(Refusal, match=words):
        fedprox(MEAN, sgd(lr, optimizer), mu=mu)
    way = sgd(lr, optimizer)
    fedprox(MEAN, way, mu=0.999 * way.limit / lr)


def test_the_limit_is_where_it_diverges() -> None:
    """On a loss without curvature of its own, steps from off wᵗ grow from 2 on."""
    flat = MEAN._replace(grad=lambda v, batch: torch.full_like(v, -1.0))
    assert moved(flat, sgd(1.0), 0.0, 3000, mu=1.99).item() == pytest.approx(1 / 1.99)
    almost = moved(flat, sgd(1.0), 0.0, 2000, mu=2 - 1e-9).item()
    assert almost == pytest.approx(0.0, abs=1e-4)  # goes 0, 1, 0, 1 … for ever


def test_adam_has_no_such_limit() -> None:
    fedprox(MEAN, sgd(1.0, "adam"), mu=100.0)


def test_what_float32_cannot_hold_stops_nothing(classify: Any) -> None:
    train = {"optimizer": "adam", "precision": "float32"}
    f = classify(solver={"name": "fedprox", "mu": 1e300}, train=train).federation
    assert all(record.broadcast.w.isfinite().all() for record in f.train())
