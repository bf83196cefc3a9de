"""Small federations, built and trained as asked, and the same in plain torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from troth import build
from troth.config import reader
from troth.data import load
from troth.engine.engine import Plan
from troth.networks import task as tasks
from troth.types import Split

LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)
TRACED = pytest.mark.slow("traces, which takes a second")
PLANS = [LOOP, THREADS, pytest.param(VMAP, marks=TRACED)]


def built(wanted: Any, plan: Plan = LOOP, rounds: int | None = None) -> build.Built:
    """An experiment, built and trained; `rounds`: no further than that."""
    made = build.build(reader.from_dict(wanted), plan=plan)
    list(itertools.islice(made.federation.train(), rounds))
    return made


def states(made: build.Built) -> Tensor:
    """What all clients keep, as it is read."""
    f, ids = made.federation, np.arange(made.federation.population.n)
    return f.engine.settled(f.population.read(ids), ids)


def models(made: build.Built) -> Tensor:
    """What all clients predict with, [n, d]."""
    f = made.federation
    return f.engine.models(f.broadcast.w, states(made))


def done(made: build.Built) -> Tensor:
    """All clients' models after the last round and the last phase, [n, d]."""
    f = made.federation
    list(f.train())
    assert sum(f.finish(4)) == (f.population.n if f.engine.client.finish else 0)
    return models(made)


def told(made: build.Built) -> list[list[float]]:
    """What clients.csv has of them beside their scores."""
    found: list[list[float]] = made.federation.engine.told(states(made)).tolist()
    return found


def rows(split: Split, k: int) -> Tensor:
    """The slots of one client."""
    return torch.arange(int(split.size[k])) + split.start[k]


def loss(made: build.Built, v: Tensor, slots: Tensor, split: str = "train") -> Tensor:
    part = getattr(made.data, split)
    tasks.assign(made.network, v)
    outputs = made.network(made.data.x[part.row[slots]])
    return cross_entropy(outputs, part.y[slots])


def gradient(made: build.Built, v: Tensor, slots: Tensor) -> Tensor:
    """By autograd alone: of a model on training examples, by their slots."""
    value = loss(made, v, slots)
    found = torch.autograd.grad(value, list(made.network.parameters()))
    return torch.cat([g.reshape(-1) for g in found])


def draws(made: build.Built, k: int, r: int, steps: int) -> list[Tensor]:
    """The slots that a client sees in every step of a round."""
    slots, weight = made.federation.engine.feed.draw(np.array([k]), steps, r)
    pairs = zip(slots[:, 0], weight[:, 0], strict=True)
    return [row[there > 0] for row, there in pairs]


Local = Callable[[int, Tensor, int, list[Tensor]], Tensor]
"""Client, w, round, the slots of every step → its update."""


def written_out(made: build.Built, local: Local) -> Tensor:
    """w after all rounds of plain averaging; `made` is not trained."""
    f, steps = made.federation, made.experiment.train.steps
    w = f.broadcast.w.clone()
    for r in range(f.rounds):
        updates = [
            local(k, w, r, draws(made, k, r, steps)) for k in f.sample(r).tolist()
        ]
        w = w + torch.stack(updates).mean(0)
    return w


def agrees(made: build.Built, w: Tensor, v: Tensor, within: float = 1e-12) -> None:
    """Train, and compare the shared model and all clients'."""
    list(made.federation.train())
    assert (made.federation.broadcast.w - w).abs().max() <= within
    assert (models(made) - v).abs().max() <= within


class Ended(NamedTuple):
    """Where a federation of quadratics F_k = ½vᵀA_k v − b_kᵀv came to."""

    w: np.ndarray  # [d]
    v: np.ndarray  # [n, d] personal models
    a: list[np.ndarray]  # [d, d] each
    b: list[np.ndarray]  # [d] each

    def coupled(self, own: float, pull: float) -> np.ndarray:
        """The stationary point of Σ own·F_k(v_k) + (pull/2)‖v_k − v̄‖², [n, d].

        Its gradient in v_k is own·(A_k v_k − b_k) + pull·(v_k − v̄), for the parts that
        go through v̄ sum to nothing: one linear system for all of them.
        """
        n, d = self.v.shape
        whole = pull * np.kron(np.eye(n) - np.ones((n, n)) / n, np.eye(d))
        for k, a in enumerate(self.a):
            here = slice(k * d, (k + 1) * d)
            whole[here, here] += own * a
        return np.linalg.solve(whole, own * np.concatenate(self.b)).reshape(n, d)


def quadratics(
    personalizer: Any, rounds: int, server: float = 1.0, **train: Any
) -> Ended:
    """Linear regressions of five clients, on full batches, all in every round."""
    wanted = {
        "data": {"name": "linear_regression", "clients": 5, "examples": 40, "dim": 3},
        "partition": {"name": "natural", "split": "given"},
        "model": {"name": "linear", "bias": False, "normalize": "none"},
        "train": {"rounds": rounds, "batch": 0, "precision": "float64"} | train,
        "personalizer": personalizer,
        "server": {"name": "sgd", "lr": server},
        "engine": {"device": "cpu"},
    }
    made = built(wanted, Plan("vmap", 5), 0)
    v = done(made)
    arrays, shards, _ = load.deal(made.experiment, None)
    held = [(arrays.x[own], arrays.y[own]) for own in shards.train]
    return Ended(
        made.federation.broadcast.w.numpy(),
        v.numpy(),
        [x.T @ x / len(x) for x, _ in held],
        [x.T @ y / len(x) for x, y in held],
    )
