"""Small federations, built and trained as asked, and the same in plain torch."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from troth import build
from troth.config import reader
from troth.data import load
from troth.engine.local_training import Plan
from troth.networks import task as tasks

LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)
TRACED = pytest.mark.slow("traces, which takes a second")
PLANS = [LOOP, THREADS, pytest.param(VMAP, marks=TRACED)]


def built(wanted, plan=THREADS, rounds=None):
    """An experiment, built and trained; `rounds`: no further than that."""
    made = build.build(reader.from_dict(wanted), plan=plan)
    list(itertools.islice(made.federation.train(), rounds))
    return made


def states(made):
    """What all clients keep, as it is read."""
    f, ids = made.federation, np.arange(made.federation.population.n)
    return f.engine.settled(f.population.read(ids), ids)


def models(made):
    """What all clients predict with, [n, d]."""
    f = made.federation
    return f.engine.models(f.broadcast.w, states(made))


def done(made):
    """All clients' models after the last round and the last phase, [n, d]."""
    f = made.federation
    list(f.train())
    assert sum(f.finish(4)) == (f.population.n if f.engine.client.finish else 0)
    return models(made)


def told(made):
    """What clients.csv has of them beside their scores."""
    return made.federation.engine.told(states(made)).tolist()


def own(name, **options):
    """A section of an experiment."""
    return {"name": name, **options}


def on_file(path, personalizer, train, /, **sections):
    """An experiment in float64 on a file's clients; sections replace what is usual.

    Only `train` is put together, from its usual values and those of the sections.
    """
    train = {"precision": "float64"} | train | sections.pop("train", {})
    usual = {"partition": own("natural", split="given"), "engine": {"device": "cpu"}}
    named = {"data": own("npz", path=str(path)), "personalizer": personalizer}
    return usual | named | sections | {"train": train}


def rows(split, k):
    """The slots of one client."""
    return torch.arange(int(split.size[k])) + split.start[k]


def loss(made, v, slots, split="train"):
    part = getattr(made.data, split)
    tasks.assign(made.network, v)
    outputs = made.network(made.data.x[part.row[slots]])
    return cross_entropy(outputs, part.y[slots])


def gradient(made, v, slots):
    """By autograd alone: of a model on training examples, by their slots."""
    value = loss(made, v, slots)
    found = torch.autograd.grad(value, list(made.network.parameters()))
    return torch.cat([g.reshape(-1) for g in found])


def draws(made, k, r, steps, **how):
    """The slots that a client sees in every step of a round."""
    slots, weight = made.federation.engine.feed.draw(np.array([k]), steps, r, **how)
    pairs = zip(slots[:, 0], weight[:, 0], strict=True)
    return [row[there > 0] for row, there in pairs]


def written_out(made, local):
    """w after all rounds of plain averaging; `made` is not trained."""
    f, steps = made.federation, made.experiment.train.steps
    w = f.broadcast.w.clone()
    for r in range(f.rounds):
        updates = [
            local(k, w, r, draws(made, k, r, steps)) for k in f.sample(r).tolist()
        ]
        w = w + torch.stack(updates).mean(0)
    return w


def agrees(made, w, v, within=1e-12):
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

    def coupled(self, own, pull):
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


def quadratics(personalizer, rounds, server=1.0, **train):
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
