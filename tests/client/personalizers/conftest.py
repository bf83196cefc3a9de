"""Clients of layered models, whose labels are at odds, and runs of them."""

import importlib
import itertools
import sys
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from troth import build
from troth.engine.local_training import Plan
from troth.networks import task as tasks

from ..small import built, draws, models, on_file, own

TRAIN, VALID = [8, 14, 24, 6, 18, 11], [2, 0, 4, 1, 3, 2]  # examples of each client
N, FEATURES, COHORT, BATCH = len(TRAIN), 5, 4, 4
MODULE = """
from torch import nn


def plain(shape, classes):
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, classes))


def first(shape, classes):
    return nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, classes))


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

    def named(self, v):
        """A vector's tensors by the names that the model has for them."""
        parts = tasks.unflatten(tasks.layout(self.built.network), v)
        return {name.removeprefix("1."): part for name, part in parts.items()}


@pytest.fixture(scope="session")
def guests(tmp_path_factory):
    """Clients whose labels are at odds, and models and an attack of somebody else."""
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("layered")
    sizes = [(a, b, 1) for a, b in zip(TRAIN, VALID, strict=True)]
    owner = np.repeat(np.arange(N), [sum(size) for size in sizes])
    split = np.concatenate([np.repeat([0, 1, 2], size) for size in sizes])
    x = random.normal(size=(len(owner), FEATURES)) * (1 + owner[:, None])
    y = (x[:, :3].argmax(1) + owner) % 3
    marks = {"group": np.arange(len(y)) % 3 // 2, "split": split.astype(np.int8)}
    np.savez(path / "clients.npz", x=x, y=y, owner=owner, **marks)
    (path / "layered.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path))
        yield path
    sys.modules.pop("layered", None)


@pytest.fixture(scope="session")
def tree(guests):
    """(model, personalizer, **sections) → an experiment in float64."""

    def made(model, personalizer, **sections):
        train = {"rounds": 3, "cohort": COHORT, "batch": BATCH, "steps": 5, "lr": 0.1}
        usual = {"seed": 5, "adversarial": {"bounds": []}}
        usual["model"] = model if model == "linear" else f"layered:{model}"
        file, sections = guests / "clients.npz", usual | sections
        wanted = on_file(file, personalizer, train, **sections)
        if "epochs" in wanted["train"]:
            del wanted["train"]["steps"]
        return wanted

    return made


@pytest.fixture(scope="session")
def train(tree):
    """(plan, model, personalizer, **sections) → a federation, trained."""

    def made(plan, model, personalizer, **sections):
        ready = built(tree(model, personalizer, **sections), plan, 0)
        updates = [record.messages.update for record in ready.federation.train()]
        return Trained(ready, ready.federation.broadcast.w, models(ready), updates)

    return made


@pytest.fixture(scope="session")
def written_out(guests):
    """(trained, personal layers, turns of a client, two optimizers): compares.

    The same federation in plain torch: a client is a module. Its own layers and their
    optimizer live on; the others are set to what the server sends, and their optimizer
    is new in every round. Personal layers of the shared model stay as at the start.
    """

    def compare(ours, *how):
        expected = run(build.build(ours.built.experiment, plan=Plan("loop", 1)), *how)
        for v, theirs in zip((ours.w, *ours.models), expected, strict=True):
            for name, value in ours.named(v).items():
                torch.testing.assert_close(value, theirs[name], rtol=0, atol=1e-9)

    def run(built, own, turns, optimize):
        """The shared model and all clients', by the names of their tensors."""
        w = Trained(built, None, None, []).named(built.federation.broadcast.w.clone())
        clients = [layered.normed((FEATURES,), 3).double().train() for _ in TRAIN]
        for client in clients:
            _put(client, w)
        firsts = [optimize[0](_parameters(c, own, True)) for c in clients]
        for r in range(built.federation.rounds):
            sent = []
            for k in built.federation.sample(r):
                _put(clients[k], {n: t for n, t in w.items() if _shared(n, own)})
                second = optimize[1](_parameters(clients[k], own, False))
                _work(built, clients[k], own, (firsts[k], second), turns(k), (r, k))
                sent.append(_values(clients[k]))
            for name in filter(lambda n: _shared(n, own), w):
                w[name] = torch.stack([one[name] for one in sent]).mean(0)
        for client in clients:
            _put(client, {n: t for n, t in w.items() if _shared(n, own)})
        return w, *map(_values, clients)

    layered = importlib.import_module("layered")
    return compare


def _shared(name, own):
    return name.rpartition(".")[0] not in own


def _held(net):
    return dict(itertools.chain(net.named_parameters(), net.named_buffers()))


def _values(net):
    found = _held(net).items()
    return {n: t.detach().clone() for n, t in found if t.is_floating_point()}


def _put(net, values):
    held = _held(net)
    with torch.no_grad():
        for name, value in values.items():
            held[name].copy_(value)


def _parameters(net, own, mine):
    found = [p for n, p in net.named_parameters() if _shared(n, own) != mine]
    return found or [nn.Parameter(torch.zeros(1))]


def _work(built, net, own, optimizers, turns, when):
    """A round of one client."""
    r, k = when
    train = built.data.train
    for held, turn in zip(draws(built, k, r, len(turns)), turns, strict=True):
        before = _values(net)
        net.zero_grad()
        x = built.network[0](built.data.x[train.row[held]])
        cross_entropy(net(x), train.y[held]).backward()
        for optimizer, moves in zip(optimizers, turn, strict=True):
            if moves:
                optimizer.step()
        still = {n for n in before if not turn[_shared(n, own)]}
        _put(net, {n: t for n, t in before.items() if n in still and "running" in n})


@pytest.fixture(scope="session")
def grouped(tmp_path_factory):
    """(personalizer, groups, **sections) → an experiment whose examples have groups.

    Two classes and, at every client but the fourth, groups of any numbers: "two", a
    third being in another, "three", in one of which labels are turned round, "one",
    "many" or "none".
    """
    sizes, only = [40, 12, 30, 24, 20], 3
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("grouped")
    owner = np.repeat(np.arange(len(sizes)), sizes)
    y = random.integers(0, 2, len(owner))
    x = (np.eye(2)[y] + random.normal(0, 0.8, (len(owner), 2))).astype(np.float32)
    place, alone = np.arange(len(y)), owner == only
    three = np.where(alone, 2, place % 3)
    turned = np.where((three == 1) & (random.random(len(y)) < 0.7), 1 - y, y)
    marks = {
        "two": {"y": y, "group": np.where(alone | (place % 3 != 1), 4, 9)},
        "three": {"y": turned, "group": three},
        "one": {"y": turned, "group": 0 * place},
        "many": {"y": y, "group": place},
        "none": {"y": y},
    }
    for name, more in marks.items():
        np.savez(path / f"{name}.npz", x=x, owner=owner, **more)

    def made(personalizer, groups="two", **sections):
        how = {"rounds": 3, "cohort": 4, "steps": 2, "batch": 6, "lr": 0.1}
        usual = {"seed": 2, "partition": own("natural", split=[0.6, 0.2, 0.2])}
        return on_file(path / f"{groups}.npz", personalizer, how, **usual | sections)

    return made
