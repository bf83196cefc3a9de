"""FedPer: layers of the client's own on top of shared ones."""

import pytest
import torch

import troth
from troth import lookup
from troth.client.personalizers.fedper import fedper
from troth.networks.flat import Masks
from troth.types import Budget, Task

from ..hand import batch, by, number, sent, worked
from ..small import LOOP, THREADS, TRACED, VMAP

# Of `layered:normed`: conv1 24, norm1 8, conv2 15, fc 12; norm1's and norm2's
# statistics 4 + 3 + 4 + 3, in this order.
FC = slice(47, 59)


def test_a_round_by_hand():
    """F = ½(φ·h − 3)² from φ = 2, h = 1: both by one gradient, h + .2 and φ + .1."""

    def grad(v, seen):
        return (v[0] * v[1] - 3) * v.flip(0)

    pair = torch.nn.Sequential(*(torch.nn.Linear(1, 1, bias=False) for _ in range(2)))
    product, how, both = Task(2, 0, grad, grad, grad), by(0.1), Budget(1)
    one = fedper(product, how, how, both, None, Masks(pair))
    told = sent(number(2.0, 9.0))
    reply, state = worked(one.local, (number(1.0),), told, batch(0.0))
    assert reply.update.tolist() == pytest.approx([0.1, 0.0])
    assert one.model(number(5.0, 7.0), state).tolist() == pytest.approx([5.0, 1.2])


def torched(optimizer, lr):
    if optimizer == "adam":
        return lambda p: torch.optim.Adam(p, lr=lr, weight_decay=0.02)
    beta = 0.9 if optimizer == "momentum" else 0.0
    return lambda p: torch.optim.SGD(p, lr=lr, weight_decay=0.02, momentum=beta)


@pytest.mark.parametrize(
    ("plan", "optimizer", "own", "steps"),
    [
        (LOOP, "adam", ("norm2", "fc"), 5),
        pytest.param(VMAP, "adam", ("norm2", "fc"), 5, marks=TRACED),
        (THREADS, "momentum", ("conv1", "norm1"), 5),
        (THREADS, "sgd", ("fc",), 5),
        (LOOP, "sgd", ("fc",), 3),  # its own layers may move for another time
        (THREADS, "momentum", ("fc",), 8),
    ],
)
def test_written_out(train, written_out, plan, optimizer, own, steps):
    """Modules and torch's optimizers, in a loop: statistics belong to their layer."""
    how = {"optimizer": optimizer, "lr": 0.05, "weight_decay": 0.02}
    personal = {"name": "fedper", "layers": list(own), "lr": 0.02, "steps": steps}
    turns = [(t < steps, t < 5) for t in range(max(steps, 5))]
    ours = train(plan, "normed", personal, train=how)
    both = torched(optimizer, 0.02), torched(optimizer, 0.05)
    written_out(ours, own, lambda k: turns, both)


def test_nothing_of_its_own_is_sent(train):
    """And who was never asked has the first head."""
    ours = train(THREADS, "normed", "fedper", train={"cohort": 2, "rounds": 2})
    f = ours.built.federation
    asked = {*f.sample(0).tolist(), *f.sample(1).tolist()}
    assert len(asked) < 6
    for update in ours.updates:
        assert not update[:, FC].any()
        assert update[:, : FC.start].ne(0).any(dim=1).all()
    assert ours.w[FC].equal(f.population.start)
    still = ours.models[:, FC].eq(ours.w[FC]).all(dim=1)
    assert still.tolist() == [k not in asked for k in range(6)]
    others = torch.cat([ours.models[:, : FC.start], ours.models[:, FC.stop :]], 1)
    assert (others == others[0]).all() and ours.models.isfinite().all()


@pytest.mark.parametrize(
    ("optimizer", "width"), [("sgd", 12), ("momentum", 24), ("adam", 37)]
)
def test_a_client_keeps_no_more_than_its_own(train, optimizer, width):
    ours = train(LOOP, "normed", "fedper", train={"optimizer": optimizer})
    assert ours.built.federation.population.width == width
    nothing = {"name": "fedper", "last": 0}
    none = train(LOOP, "normed", nothing, train={"rounds": 1})
    assert none.built.federation.population.width == 0


@pytest.mark.parametrize(("plan", "value"), [(LOOP, 1e6), (THREADS, -3.0)])
def test_what_is_sent_for_personal_numbers_is_never_read(train, plan, value):
    """Here the last layer, and all statistics of the layer before it."""
    personal = {"name": "fedper", "layers": ["fc", "norm*"]}

    def sending(number):  # where honest clients send 0
        attack = {"name": "layered:flood", "first": FC.start, "value": number}
        company = {"adversary": {"fraction": 0.3}, "attack": attack}
        return train(plan, "normed", personal, **company)

    clean, ours = sending(0.0), sending(value)
    assert (ours.w[FC] - clean.w[FC]).abs().min() > 0.1  # it arrived
    assert ours.models.equal(clean.models)


@pytest.mark.parametrize("aggregator", lookup.names("aggregator"))
def test_zeros_of_all_clients_are_zeros_of_every_aggregator(aggregator):
    f = {"f": 1} if "f" in lookup.options(lookup.find("aggregator", aggregator)) else {}
    updates = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    updates[:, 2:4] = 0
    told = {"loss": torch.arange(1.0, 9.0), "size": torch.arange(1, 9)} | f
    step = troth.aggregate(aggregator, updates, **told)
    assert not step[2:4].any() and step[[0, 1, 4, 5]].all()
    assert not troth.aggregate(aggregator, torch.zeros_like(updates), **told).any()


def test_in_robust_company(train):
    """Of no update the server makes nothing, and each client is alone."""
    how = {"train": {"cohort": 6, "rounds": 2}}
    company = how | {"aggregator": "fedmgda", "filter": ["clip", "nnm", "normalize"]}
    ours = train(THREADS, "plain", {"name": "fedper", "last": 2}, **company)
    assert ours.models.equal(train(THREADS, "plain", "local", **how).models)
    assert ours.w.equal(ours.built.federation.population.start)


@pytest.mark.parametrize("server", lookup.names("server"))
def test_with_every_server(train, server):
    ours = train(THREADS, "normed", "fedper", server={"name": server, "lr": 0.1})
    start = train(THREADS, "normed", "fedper", train={"rounds": 1, "lr": 0.0})
    assert ours.w[FC].equal(start.w[FC])
    assert not ours.w[:20].isclose(start.w[:20]).any()  # conv1.weight


def test_statistics_alone_may_be_personal(train):
    """An optimizer then has nothing to move, and moments of no numbers."""
    for name, optimizer in (("fedper", "momentum"), ("fedrep", "adam")):
        personal = {"name": name, "layers": ["norm2"]}
        ours = train(THREADS, "normed", personal, train={"optimizer": optimizer})
        own = ours.models[:, 63:66]  # running means of norm2
        assert own.isfinite().all() and not own.isclose(own[0]).all()
        assert not ours.w[63:66].any()


@pytest.mark.parametrize("kind", ["mean", "median"])
def test_statistics_of_shared_layers_are_aggregated(train, kind):
    """norm1's as ever; norm2's are the client's own and stay in w as they began."""
    personal = {"name": "fedper", "layers": ["norm2"]}
    how = {"statistics": kind, "rounds": 1, "steps": 4}
    ours = train(THREADS, "normed", personal, train=how)
    plain = train(THREADS, "normed", "none", train=how)
    a, b = ours.named(ours.w), plain.named(plain.w)
    for name in ("norm1.running_mean", "norm1.running_var"):
        assert a[name].equal(b[name])  # a round in, all began with the same norm2
    assert a["norm2.running_mean"].tolist() == [0.0] * 3
    assert a["norm2.running_var"].tolist() == [1.0] * 3
    for v in ours.models[ours.built.federation.sample(0)]:
        assert not ours.named(v)["norm2.running_mean"].isclose(v.new_zeros(3)).any()
