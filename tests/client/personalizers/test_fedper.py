"""FedPer: layers of the client's own on top of shared ones."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import troth
from troth import build, lookup
from troth.config import reader
from troth.engine.engine import Plan
from troth.networks import task
from troth.types import Refusal

LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)
CASES: dict[str, dict[str, Any]] = {
    "sgd": {"schedule": "cosine", "epochs": 1},
    "momentum": {"optimizer": "momentum", "precision": "float32"},
    "adam": {"optimizer": "adam", "weight_decay": 0.02, "lr": 0.02},
}
EACH = [(LOOP, case) for case in CASES] + [(THREADS, "momentum"), (VMAP, "adam")]
each_case = pytest.mark.parametrize(("plan", "case"), EACH)
# Of `layered:normed`: conv1 24, norm1 8, conv2 15, fc 12; norm1's and norm2's
# statistics 4 + 3 + 4 + 3, in this order.
FC = slice(47, 59)


# Limits


@each_case
def test_with_nothing_personal_it_is_fedavg(train: Any, plan: Plan, case: str) -> None:
    sections = {
        "train": CASES[case],
        "adversary": {"fraction": 0.2},
        "attack": "sign_flip",
    }
    none = {"name": "fedper", "last": 0}
    ours, plain = (train(plan, "normed", p, **sections) for p in (none, "none"))
    assert ours.w.equal(plain.w)
    assert ours.models.equal(plain.models)
    assert all(a.equal(b) for a, b in zip(ours.updates, plain.updates, strict=True))
    assert ours.built.federation.population.width == 0


@each_case
def test_with_all_personal_it_is_local(train: Any, plan: Plan, case: str) -> None:
    """The moments of a client's own model live on, as those of `local` do."""
    sections = {"train": CASES[case]}
    everything = {"name": "fedper", "last": 5}
    ours, local = (train(plan, "normed", p, **sections) for p in (everything, "local"))
    assert ours.models.equal(local.models)
    assert not any(update.any() for update in ours.updates)
    start = ours.built.federation.population.start
    assert ours.w.equal(start[: len(ours.w)])  # it never moved


@pytest.mark.parametrize("plan", [LOOP, THREADS], ids=lambda plan: plan.how)
def test_its_own_work_is_that_of_local(train: Any, plan: Plan) -> None:
    own = {"lr": 0.03, "optimizer": "momentum", "steps": 7}
    by_name = {"name": "fedper", "layers": ["*"], **own}
    ours = train(plan, "normed", by_name)
    assert ours.models.equal(train(plan, "normed", {"name": "local", **own}).models)


# In between


@pytest.mark.parametrize(
    ("plan", "optimizer", "own"),
    [
        (LOOP, "adam", ("norm2", "fc")),
        (VMAP, "adam", ("norm2", "fc")),
        (THREADS, "adam", ("norm2", "fc")),
        (THREADS, "momentum", ("conv1", "norm1")),
        (THREADS, "sgd", ("fc",)),
    ],
)
def test_written_out(
    train: Any, written_out: Any, plan: Plan, optimizer: str, own: tuple[str, ...]
) -> None:
    """Modules and torch's optimisers, in a loop: statistics belong to their layer."""
    how = {"optimizer": optimizer, "lr": 0.05, "weight_decay": 0.02}
    personal = {"name": "fedper", "layers": list(own), "lr": 0.02}
    ours = train(plan, "normed", personal, train=how)
    expected = written_out(
        build.build(ours.built.experiment, plan=LOOP),
        importlib.import_module("layered").normed,
        own,
        lambda k: [(True, True)] * 5,
        (torched(optimizer, 0.02, 0.02), torched(optimizer, 0.05, 0.02)),
    )
    for name, value in ours.named(ours.w).items():
        torch.testing.assert_close(value, expected.shared[name], rtol=0, atol=1e-9)
    for v, client in zip(ours.models, expected.clients, strict=True):
        for name, value in ours.named(v).items():
            torch.testing.assert_close(value, client[name], rtol=0, atol=1e-9)


def torched(optimizer: str, lr: float, decay: float) -> Any:
    more: dict[str, Any] = {"lr": lr, "weight_decay": decay}
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, **more),
        "momentum": lambda p: torch.optim.SGD(p, momentum=0.9, **more),
        "adam": lambda p: torch.optim.Adam(p, **more),
    }
    return kinds[optimizer]


@pytest.mark.parametrize(("plan", "steps"), [(LOOP, 3), (THREADS, 8)])
def test_its_own_layers_may_move_for_another_time(
    train: Any, written_out: Any, plan: Plan, steps: int
) -> None:
    ours = train(plan, "normed", {"name": "fedper", "steps": steps})
    expected = written_out(
        build.build(ours.built.experiment, plan=LOOP),
        importlib.import_module("layered").normed,
        ("fc",),
        lambda k: [(t < steps, t < 5) for t in range(max(steps, 5))],
        (torched("sgd", 0.1, 0.0), torched("sgd", 0.1, 0.0)),
    )
    for v, client in zip(ours.models, expected.clients, strict=True):
        for name, value in ours.named(v).items():
            torch.testing.assert_close(value, client[name], rtol=0, atol=1e-9)


def test_nothing_of_its_own_is_sent(train: Any) -> None:
    ours = train(THREADS, "normed", "fedper")
    for update in ours.updates:
        assert not update[:, FC].any()
        assert update[:, : FC.start].ne(0).any(dim=1).all()
    assert not ours.models[:, FC].eq(ours.w[FC]).all(dim=1).any()
    assert not ours.built.federation.engine.client.shares_personal
    assert ours.w[FC].equal(ours.built.federation.population.start)
    others = torch.cat([ours.models[:, : FC.start], ours.models[:, FC.stop :]], 1)
    assert (others == others[0]).all()


@pytest.mark.parametrize(
    ("optimizer", "width"), [("sgd", 12), ("momentum", 24), ("adam", 37)]
)
def test_a_client_keeps_no_more_than_its_own(
    train: Any, optimizer: str, width: int
) -> None:
    ours = train(LOOP, "normed", "fedper", train={"optimizer": optimizer})
    assert ours.built.federation.population.width == width


def test_the_last_layers_are_those_named(train: Any) -> None:
    by_number = train(THREADS, "normed", {"name": "fedper", "last": 3})
    by_name = {"name": "fedper", "layers": ["fc", "norm2", "conv2"], "last": 1}
    assert train(THREADS, "normed", by_name).models.equal(by_number.models)


# Hostile company


@pytest.mark.parametrize(("plan", "value"), [(LOOP, 1e6), (THREADS, -3.0)])
def test_what_is_sent_for_personal_numbers_is_never_read(
    train: Any, plan: Plan, value: float
) -> None:
    """Here the last layer, and all statistics of the layer before it."""
    personal = {"name": "fedper", "layers": ["fc", "norm*"]}

    def sending(number: float) -> Any:  # where honest clients send 0
        attack = {"name": "layered:flood", "first": FC.start, "value": number}
        company = {"adversary": {"fraction": 0.3}, "attack": attack}
        return train(plan, "normed", personal, **company)

    clean, ours = sending(0.0), sending(value)
    assert (ours.w[FC] - clean.w[FC]).abs().min() > 0.1  # it arrived
    assert ours.models.equal(clean.models)


@pytest.mark.parametrize("aggregator", lookup.names("aggregator"))
def test_zeros_of_all_clients_are_zeros_of_every_aggregator(aggregator: str) -> None:
    f = {"f": 1} if "f" in lookup.options(lookup.find("aggregator", aggregator)) else {}
    updates = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))
    updates[:, 2:4] = 0
    told = {"loss": torch.arange(1.0, 9.0), "size": torch.arange(1, 9)}
    step = troth.aggregate(aggregator, updates, **f, **told)
    assert not step[2:4].any() and step[[0, 1, 4, 5]].all()
    nothing = troth.aggregate(aggregator, torch.zeros_like(updates), **f, **told)
    assert nothing.tolist() == [0.0] * 6


@pytest.mark.parametrize("aggregator", ["krum", "fedmgda", "geometric_median"])
def test_in_robust_company(train: Any, aggregator: str) -> None:
    """Of no update the server makes nothing, and each client is alone."""
    rule = {"name": aggregator} | ({"f": 1} if aggregator == "krum" else {})
    everything, how = {"name": "fedper", "last": 2}, {"cohort": 6, "rounds": 2}
    filters = ["clip", "nnm"] if aggregator == "krum" else ["normalize"]
    ours = train(
        THREADS, "plain", everything, train=how, aggregator=rule, filter=filters
    )
    assert ours.models.equal(train(THREADS, "plain", "local", train=how).models)
    assert ours.w.equal(ours.built.federation.population.start)


@pytest.mark.parametrize("server", lookup.names("server"))
def test_with_every_server(train: Any, server: str) -> None:
    ours = train(THREADS, "normed", "fedper", server={"name": server, "lr": 0.1})
    start = train(THREADS, "normed", "fedper", train={"rounds": 1, "lr": 0.0})
    assert ours.w[FC].equal(start.w[FC])
    assert not ours.w[:20].isclose(start.w[:20]).any()  # conv1.weight


@pytest.mark.parametrize(
    ("plan", "name", "optimizer"),
    [
        (LOOP, "fedper", "momentum"),
        (VMAP, "fedper", "adam"),
        (THREADS, "fedrep", "adam"),
    ],
)
def test_statistics_alone_may_be_personal(
    train: Any, plan: Plan, name: str, optimizer: str
) -> None:
    """An optimiser then has nothing to move, and moments of no numbers."""
    personal = {"name": name, "layers": ["norm2"]}
    how = {"optimizer": optimizer, "lr": 0.02}
    ours = train(plan, "normed", personal, train=how)
    own = ours.models[:, 63:66]  # running means of norm2
    assert own.isfinite().all() and not own.isclose(own[0]).all()
    assert not ours.w[63:66].any()


@pytest.mark.parametrize("kind", ["mean", "median"])
def test_statistics_of_shared_layers_are_aggregated(train: Any, kind: str) -> None:
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


# A run


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbn"])
def test_resumed_it_gives_the_same_bytes(tree: Any, name: str, resumed: Any) -> None:
    how = {"optimizer": "adam", "rounds": 4, "lr": 0.01}
    wanted = tree("normed", name, train=how)
    wanted["engine"] = {"device": "cpu", "how": "threads", "store": "disk"}
    wanted["evaluate"] = {"every": 1}
    resumed(wanted)


def test_a_run_gives_each_client_its_own_head(tree: Any, tmp_path: Path) -> None:
    wanted = tree("plain", "fedper")
    wanted["engine"]["how"] = "threads"
    troth.run(wanted, out=tmp_path / "run")
    loaded = troth.load(tmp_path / "run")
    nets = [task.flatten(loaded.model(k)) for k in range(6)]
    bodies, heads = zip(*(v.tensor_split([24]) for v in nets), strict=True)
    assert all(body.equal(bodies[0]) for body in bodies)
    assert not any(a.equal(b) for a, b in zip(heads, heads[1:], strict=False))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"layers": ["fc", "head"]},
            "personalizer.layers: 'head' matches nothing; there are: "
            "conv1.{weight, bias}, norm1.{weight, bias, running_mean, running_var}",
        ),
        ({"last": 6}, "personalizer.last = 6 must be at least 0 and at most 5, the"),
        ({"last": -1}, "layers of this model: conv1, norm1, conv2, norm2, fc"),
        ({"layers": "fc"}, "layers"),
        ({"depth": 1}, "depth"),
    ],
)
@pytest.mark.parametrize("name", ["fedper", "fedrep"])
def test_refusals(tree: Any, name: str, options: dict[str, Any], words: str) -> None:
    wanted = tree("normed", {"name": name, **options})
    with pytest.raises(Refusal, match=re.escape(words)) as refusal:
        build.build(reader.from_dict(wanted), plan=LOOP)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbn"])
def test_a_solver_beside_it_is_refused(tree: Any, name: str) -> None:
    wanted = tree("normed", name, solver="scaffold")
    with pytest.raises(Refusal, match=f"'{name}' makes the client's update itself"):
        build.build(reader.from_dict(wanted), plan=LOOP)


def test_who_was_never_asked_has_the_first_head(train: Any) -> None:
    ours = train(THREADS, "normed", "fedper", train={"cohort": 2, "rounds": 2})
    f = ours.built.federation
    asked = {*f.sample(0).tolist(), *f.sample(1).tolist()}
    for k in range(6):
        assert ours.models[k, FC].equal(ours.w[FC]) == (k not in asked)
    assert len(asked) < 6
    assert np.isfinite(ours.models.numpy()).all()
