"""Small federations of layered models that the tests of several personalizers share."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import troth
from troth import build, files, lookup
from troth.client.client import descent
from troth.config import reader
from troth.config.schema import Part
from troth.data import load
from troth.engine.engine import Plan
from troth.networks import task as tasks
from troth.runs.load import Run
from troth.types import Batch, Broadcast, Client, Descent, Task

SIZES = [9, 15, 25, 7, 19, 12]  # examples of each client; one is tested on
FEATURES, COHORT, BATCH = 5, 4, 4
MODULE = """
from torch import nn


def plain(shape, classes):
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, classes))


class Normed(nn.Module):
    def __init__(self, classes, norm):
        super().__init__()
        self.conv1, self.norm1 = nn.Linear(5, 4), norm(4)
        self.conv2, self.norm2 = nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False)
        self.fc = nn.Linear(3, classes)

    def forward(self, x):
        x = self.norm1(self.conv1(x)).tanh()
        return self.fc(self.norm2(self.conv2(x)).tanh())


def normed(shape, classes):
    return Normed(classes, nn.BatchNorm1d)


def layer_normed(shape, classes):
    return Normed(classes, nn.LayerNorm)


def flood(broadcast, messages, hostile, *, first: int = 0, value: float = 1e6):
    update, extra = messages.update.clone(), messages.extra.clone()
    update[hostile, first:] = value
    extra[hostile] = value
    return messages._replace(update=update, extra=extra)
"""


class Trained(NamedTuple):
    """A federation after its last round."""

    built: build.Built
    w: Tensor
    models: Tensor  # [n, d]
    updates: list[Tensor]  # [cohort, d] of each round, as they reached the aggregator

    def named(self, v: Tensor) -> dict[str, Tensor]:
        """A vector's tensors by the names that the model has for them."""
        place = tasks.layout(self.built.network)
        parts = tasks.unflatten(place, v)
        return {name.removeprefix("1."): part for name, part in parts.items()}


Train = Callable[..., Trained]


@pytest.fixture(scope="session")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Clients whose labels are at odds, and models and an attack of somebody else."""
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("layered")
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    x = random.normal(size=(len(owner), FEATURES)) * (1 + owner[:, None])
    y = (x[:, :3].argmax(1) + owner) % 3
    last = np.append(owner[1:] != owner[:-1], True)  # the others are trained on
    split = np.where(last, "test", "train")
    np.savez(path / "clients.npz", x=x, y=y, owner=owner, split=split)
    (path / "layered.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path))
        yield path
    sys.modules.pop("layered", None)


@pytest.fixture(scope="session")
def tree(guests: Path) -> Callable[..., dict[str, Any]]:
    """(model, personalizer, **sections) → an experiment in float64."""

    def made(model: str, personalizer: Any, **sections: Any) -> dict[str, Any]:
        train = {"rounds": 3, "cohort": COHORT, "batch": BATCH, "steps": 5, "lr": 0.1}
        train |= {"precision": "float64"} | sections.pop("train", {})
        if "epochs" in train:
            del train["steps"]
        return {
            "seed": 5,
            "data": {"name": "npz", "path": str(guests / "clients.npz")},
            "partition": {"name": "natural", "split": "given"},
            "model": f"layered:{model}",
            "train": train,
            "personalizer": personalizer,
            "engine": {"device": "cpu"},
            **sections,
        }

    return made


@pytest.fixture(scope="session")
def train(tree: Callable[..., dict[str, Any]]) -> Train:
    """(plan, model, personalizer, **sections) → a federation, trained."""

    def made(plan: Plan, model: str, personalizer: Any, **sections: Any) -> Trained:
        wanted = tree(model, personalizer, **sections)
        built = build.build(reader.from_dict(wanted), plan=plan)
        f = built.federation
        updates = [record.messages.update for record in f.train()]
        w = f.broadcast.w
        rows = f.population.read(np.arange(len(SIZES)))
        return Trained(built, w, f.engine.models(w, rows), updates)

    return made


Turn = tuple[bool, bool]  # whether (own, shared) layers move
Optimise = Callable[[list[Tensor]], torch.optim.Optimizer]


class WrittenOut(NamedTuple):
    """The same federation in plain torch: modules, optimisers and a loop."""

    shared: dict[str, Tensor]  # by name; of personal layers, as at the start
    clients: list[dict[str, Tensor]]  # with the shared layers as they are in the end


@pytest.fixture(scope="session")
def written_out() -> Callable[..., WrittenOut]:
    """(built, personal layers, turns of a client, two optimisers) → what it comes to.

    A client is a module. Its own layers and their optimiser live on; the others are set
    to what the server sends, and their optimiser is new in every round.
    """

    def run(
        built: build.Built,
        model: Callable[..., nn.Module],
        own: tuple[str, ...],
        turns: Callable[[int], list[Turn]],
        optimise: tuple[Optimise, Optimise],
    ) -> WrittenOut:
        start = {
            name.removeprefix("1."): value.clone()
            for name, value in tasks.unflatten(
                tasks.layout(built.network), built.federation.broadcast.w
            ).items()
        }
        clients = [_client(model, start) for _ in SIZES]
        firsts = [optimise[0](_parameters(c, own, True)) for c in clients]
        w = dict(start)
        for r in range(built.federation.rounds):
            sent = []
            for k in built.federation.sample(r):
                _put(clients[k], {n: t for n, t in w.items() if _shared(n, own)})
                second = optimise[1](_parameters(clients[k], own, False))
                _work(built, clients[k], own, (firsts[k], second), turns(k), (r, k))
                sent.append(_values(clients[k]))
            for name in w:
                if _shared(name, own):
                    w[name] = torch.stack([one[name] for one in sent]).mean(0)
        for client in clients:
            _put(client, {n: t for n, t in w.items() if _shared(n, own)})
        return WrittenOut(w, [_values(client) for client in clients])

    return run


def _shared(name: str, own: tuple[str, ...]) -> bool:
    return name.rpartition(".")[0] not in own


def _client(model: Callable[..., nn.Module], start: dict[str, Tensor]) -> nn.Module:
    made = model((FEATURES,), 3).double()
    _put(made, start)
    return made.train()


def _values(net: nn.Module) -> dict[str, Tensor]:
    found = itertools.chain(net.named_parameters(), net.named_buffers())
    return {n: t.detach().clone() for n, t in found if t.is_floating_point()}


def _put(net: nn.Module, values: dict[str, Tensor]) -> None:
    held = dict(itertools.chain(net.named_parameters(), net.named_buffers()))
    with torch.no_grad():
        for name, value in values.items():
            held[name].copy_(value)


def _parameters(net: nn.Module, own: tuple[str, ...], mine: bool) -> list[Tensor]:
    found = [p for n, p in net.named_parameters() if _shared(n, own) != mine]
    return found or [nn.Parameter(torch.zeros(1))]


def _work(
    built: build.Built,
    net: nn.Module,
    own: tuple[str, ...],
    optimisers: tuple[torch.optim.Optimizer, torch.optim.Optimizer],
    turns: list[Turn],
    when: tuple[int, int],
) -> None:
    """A round of one client."""
    feed, (r, k) = built.federation.engine.feed, when
    slots, weight = feed.draw(np.array([k]), len(turns), r)
    for row, there, turn in zip(slots[:, 0], weight[:, 0], turns, strict=True):
        held = row[there > 0]
        x = built.network[0](feed.data.x[feed.data.train.row[held]])  # type: ignore[index]
        before = copy.deepcopy(_values(net))
        net.zero_grad()
        cross_entropy(net(x), feed.data.train.y[held]).backward()
        for optimiser, moves in zip(optimisers, turn, strict=True):
            if moves:
                optimiser.step()
        still = {n for n in before if not turn[_shared(n, own)]}
        _put(net, {n: t for n, t in before.items() if n in still and "running" in n})


# Coupled models: l2sgd, mixture, pfedme


Gradient = Callable[[Tensor], Tensor]
Local = Callable[[int, Tensor, int, list[Gradient]], Tensor]
"""Client, w, round, the gradient of every step's batch → its update."""


class Small:
    """Classifiers of pictures; some clients' labels are at odds with the others'."""

    sizes = (5, 9, 16, 26, 2, 14, 21)
    n, cohort, steps = 7, 4, 3

    def __init__(self, path: Path) -> None:
        random = np.random.default_rng(0)
        owner = np.repeat(np.arange(self.n), [size + 2 for size in self.sizes])
        split = np.concatenate([np.repeat([0, 2], [size, 2]) for size in self.sizes])
        x = random.integers(0, 256, (len(owner), 6, 6), dtype=np.uint8)
        y = (x[:, 0, :3].argmax(1) + owner % 2) % 3
        np.savez(path, x=x, y=y, owner=owner, split=split.astype(np.int8))
        self.path = path

    def tree(self, personalizer: Any, **sections: Any) -> dict[str, Any]:
        train = {"rounds": 4, "cohort": self.cohort, "batch": 4, "lr": 0.1}
        train |= {"steps": self.steps, "precision": "float64"}
        base: dict[str, Any] = {
            "seed": 3,
            "data": {"name": "npz", "path": str(self.path)},
            "partition": {"name": "natural", "split": "given"},
            "model": "linear",
            "personalizer": personalizer,
            "engine": {"device": "cpu"},
        }
        return base | sections | {"train": train | sections.get("train", {})}

    def built(self, personalizer: Any, plan: Plan, **sections: Any) -> build.Built:
        wanted = reader.from_dict(self.tree(personalizer, **sections))
        return build.build(wanted, plan=plan)

    def trained(self, personalizer: Any, plan: Plan, **sections: Any) -> build.Built:
        built = self.built(personalizer, plan, **sections)
        for _ in built.federation.train():
            pass
        return built

    def models(self, built: build.Built) -> Tensor:
        """What every client predicts with."""
        f = built.federation
        rows = f.population.read(np.arange(f.population.n))
        return f.engine.models(f.broadcast.w, rows)

    def written_out(self, built: build.Built, local: Local) -> Tensor:
        """w after all rounds of plain averaging; `built` is not trained."""
        f = built.federation
        w = f.broadcast.w.clone()
        for r in range(f.rounds):
            updates = []
            for k in f.sample(r).tolist():
                slots, weight = f.engine.feed.draw(np.array([k]), self.steps, r)
                pairs = zip(slots[:, 0], weight[:, 0], strict=True)
                batches = [_gradient(built, row[there > 0]) for row, there in pairs]
                updates.append(local(k, w, r, batches))
            w = w + torch.stack(updates).mean(0)
        return w


def _gradient(built: build.Built, slots: Tensor) -> Gradient:
    return lambda v: _at(built, v, slots)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A federation of pictures, built and trained as asked."""
    return Small(tmp_path_factory.mktemp("small") / "clients.npz")


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


@pytest.fixture
def quadratics() -> Callable[..., Ended]:
    """(personalizer, rounds, **train): regressions, full batches, all clients."""

    def converge(
        personalizer: Any, rounds: int, server: float = 1.0, **train: Any
    ) -> Ended:
        data = {"name": "linear_regression", "clients": 5, "examples": 40, "dim": 3}
        whole = {"rounds": rounds, "batch": 0, "precision": "float64"}
        experiment = reader.from_dict(
            {
                "data": data,
                "partition": {"name": "natural", "split": "given"},
                "model": {"name": "linear", "bias": False, "normalize": "none"},
                "train": whole | train,
                "personalizer": personalizer,
                "server": {"name": "sgd", "lr": server},
                "engine": {"device": "cpu"},
            }
        )
        f = build.build(experiment, plan=Plan("vmap", 5)).federation
        for _ in f.train():
            pass
        arrays, shards, _ = load.deal(experiment, None)
        held = [(arrays.x[rows], arrays.y[rows]) for rows in shards.train]
        v = f.engine.models(f.broadcast.w, f.population.read(np.arange(5)))
        return Ended(
            f.broadcast.w.numpy(),
            v.numpy(),
            [x.T @ x / len(x) for x, _ in held],
            [x.T @ y / len(x) for x, y in held],
        )

    return converge


def _away(v: Tensor, batch: Batch) -> Tensor:
    return 0.5 * (batch.weight * (v - batch.x).square()).sum()


class Bowl:
    """One client by itself, F(v) = ½·mean (v − x)²: its gradient is v − mean x."""

    task = Task(1, 0, _away, torch.func.grad(_away), lambda v, x: v.expand(len(x)))

    def number(self, *x: float) -> Tensor:
        return torch.tensor(x, dtype=torch.float64)

    def batch(self, *x: float, t: int = 0) -> Batch:
        rows, step = self.number(*x), torch.tensor(t)
        weight = torch.full_like(rows, 1 / len(x))
        return Batch(rows, rows, weight, step, torch.tensor(1))

    def by(self, lr: float, optimizer: str = "sgd") -> Descent:
        part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
        return descent(part, lr, 0.0)

    def round(
        self,
        one: Client,
        state: Any,
        w: float,
        *x: float,
        scale: float = 1.0,
        key: int = 0,
    ) -> tuple[float, Any]:
        """The update and the state after a step on each of some examples."""
        factor = torch.tensor(scale, dtype=torch.float64)
        sent = Broadcast(self.number(w), self.number(), factor, torch.tensor(key))
        carry, none = one.local.begin(sent, state), self.batch(0.0)
        for t, value in enumerate(x):
            carry = one.local.step(sent, carry, self.batch(value, t=t), none)
        reply, state = one.local.end(sent, carry, state, none)
        assert reply.extra.shape == (0,)
        return reply.update.item(), state


@pytest.fixture(scope="session")
def bowl() -> Bowl:
    """A client in one dimension, for steps by hand."""
    return Bowl()


def _at(built: build.Built, v: Tensor, slots: Tensor) -> Tensor:
    split = built.data.train
    tasks.assign(built.network, v)
    f = cross_entropy(built.network(built.data.x[split.row[slots]]), split.y[slots])
    found = torch.autograd.grad(f, list(built.network.parameters()))
    return torch.cat([g.reshape(-1) for g in found])


def _done(ready: build.Built) -> Tensor:
    f = ready.federation
    for _ in f.train():
        pass
    n = f.population.n
    assert sum(f.finish(4)) == n
    return f.engine.models(f.broadcast.w, f.population.read(np.arange(n)))


@pytest.fixture(scope="session")
def done() -> Callable[[build.Built], Tensor]:
    """All clients' models after the last phase, [n, d]."""
    return _done


@pytest.fixture
def gradient() -> Callable[[build.Built, Tensor, Tensor], Tensor]:
    """By autograd alone: of a model on training examples, by their slots."""
    return _at


@pytest.fixture
def resumed(tmp_path: Path) -> Callable[[dict[str, Any]], Run]:
    """Trains a run whole and, stopped after two rounds, again: the same bytes."""

    class Killed(Exception):
        pass

    def kill(progress: Any) -> None:
        if progress.done == 2:
            raise Killed

    def both(wanted: dict[str, Any]) -> Run:
        [run] = troth.run(wanted, out=tmp_path / "whole")
        with pytest.raises(Killed):
            troth.run(wanted, out=tmp_path / "cut", watch=kill)
        troth.resume(tmp_path / "cut")
        for name in (files.CLIENTS, files.ROUNDS, files.SHARED, files.PERSONAL):
            whole, cut = (tmp_path / part / name for part in ("whole", "cut"))
            assert whole.read_bytes() == cut.read_bytes(), name
        return run

    return both
