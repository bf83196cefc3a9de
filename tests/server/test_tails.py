"""Running statistics through a round: of all clients, and out of everybody's hands."""

import math
import sys
from typing import Any

import clients_sent
import numpy as np
import pytest
import torch
from clients_sent import drawn
from torch import Tensor, nn

import troth
from troth import build, files
from troth.config import reader
from troth.engine.engine import Plan
from troth.networks import task
from troth.server import server
from troth.types import Broadcast, Refusal

SIZES = [4, 7, 12, 9, 15]
N, D = len(SIZES), 3

MODULE = """
import math
import torch
from torch import nn
from troth.client.solvers.fedavg import fedavg
from troth.types import Solver

seen = {}


def first(shape, classes, *, momentum: float = 0.1):
    d = math.prod(shape)
    norm = nn.BatchNorm1d(d, momentum=momentum)
    return nn.Sequential(nn.Flatten(), norm, nn.Linear(d, classes or 1))


def deep(shape, classes):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), 5, bias=False),
        nn.BatchNorm1d(5),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(5, 4),
        nn.BatchNorm1d(4, affine=False),
        nn.ReLU(),
        nn.Linear(4, classes or 1),
    )


def narrow(shape, classes):
    layers = deep(shape, classes)
    return nn.Sequential(*(layer for layer in layers if "Drop" not in str(layer)))


def telling(task, descent):
    plain = fedavg(task, descent)

    def begin(broadcast, state):
        return *plain.begin(broadcast, state), broadcast.w.new_zeros(1)

    def step(broadcast, carry, batch):
        count = (batch.weight > 0).sum().reshape(1).to(carry[-1].dtype)
        return *plain.step(broadcast, carry[:-1], batch), count

    def end(broadcast, carry, state):
        reply, kept = plain.end(broadcast, carry, state)
        beside = torch.cat([torch.ones_like(carry[-1]), carry[-1]])
        return reply._replace(extra=beside), kept

    return Solver(plain.init, begin, step, end, extra=2)


def poison(messages, hostile, *, value: float = -1e6):
    extra = messages.extra.clone()
    extra[hostile] = value
    return messages._replace(extra=extra)


def looking(messages, broadcast):
    seen["aggregator"] = messages, broadcast
    return messages.update.mean(0)


def serving(broadcast, step):
    seen["server"] = broadcast, step
    return broadcast.w + step


def passing(messages, broadcast):
    seen["filter"] = messages, broadcast
    return messages


def huge(x, y, *, times: float = 1e30):
    return x * times, y
"""


@pytest.fixture(autouse=True)
def mod(tmp_path, monkeypatch):
    """Networks and rules of somebody else, named `strangers:function`."""
    (tmp_path / "strangers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("strangers", None)
    import strangers  # type: ignore[import-not-found]

    yield strangers
    sys.modules.pop("strangers", None)


@pytest.fixture
def path(tmp_path):
    """Clients of different sizes, each about a center and with a spread of its own."""
    draw = np.random.default_rng(0)
    owner = np.repeat(np.arange(N), SIZES)
    x = draw.normal(size=(len(owner), D)) * (1 + owner[:, None]) + 3 * owner[:, None]
    marks = np.concatenate([np.arange(size) < size - 1 for size in SIZES])
    y = draw.integers(0, 2, len(owner))
    split = np.where(marks, "train", "test")
    np.savez(tmp_path / "data.npz", x=x, y=y, owner=owner, split=split)
    return tmp_path / "data.npz"


def tree(path, model="strangers:first", **sections):
    train = {"rounds": 1, "steps": 2, "batch": 0, "lr": 0.1, "precision": "float64"}
    return {
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "split": "given"},
        "engine": {"device": "cpu", "how": "loop"},
        "model": model,
        **sections,
        "train": train | sections.get("train", {}),
    }


def built(path, model="strangers:first", plan=None, **more):
    whole = reader.from_dict(tree(path, model, **more))
    return build.build(whole, plan=plan or Plan("loop", 1))


def made(path, model="strangers:first", **more):
    return built(path, model, **more).federation


def statistics(path, steps, momentum=0.1):
    """[n, 2·D] what the layer of `first` has seen of each client after a round."""
    with np.load(path) as data:
        x, owner, train = data["x"], data["owner"], data["split"] == "train"
    rows = []
    for k in range(N):
        mine = x[(owner == k) & train]
        old = (1 - momentum) ** steps
        mean, var = mine.mean(0), mine.var(0, ddof=1)
        rows.append(np.concatenate([(1 - old) * mean, old + (1 - old) * var]))
    return torch.from_numpy(np.stack(rows))


def tail(vector):
    return vector[..., -2 * D :]


# Cut and joined


def messages(n, d, e):
    return clients_sent.messages(drawn(n, d), extra=drawn(n, e, 1))


@pytest.mark.parametrize("e", [0, 2])
def test_cut_and_joined_all_is_as_before(e):
    w = torch.arange(1.0, 8.0)
    broadcast = Broadcast(w, torch.arange(float(e)), torch.ones(()))
    seen = server.cut_broadcast(broadcast, 4)
    assert seen.w.tolist() == [1, 2, 3]
    assert seen.extra.tolist() == [*range(e), 4, 5, 6, 7]
    back = server.join(seen, 4)
    assert torch.equal(back.w, w) and torch.equal(back.extra, broadcast.extra)
    sent = messages(5, 7, e)
    cut = server.cut(sent, 4)
    assert torch.equal(cut.update, sent.update[:, :3])
    solver, layers = server.apart(cut, 4)
    assert torch.equal(solver.update, sent.extra)
    assert torch.equal(layers.update, sent.update[:, 3:])


def test_without_a_tail_nothing_is_touched():
    broadcast = Broadcast(torch.ones(3), torch.ones(1), torch.ones(()))
    sent = messages(2, 3, 1)
    assert server.cut(sent, 0) is sent
    assert server.cut_broadcast(broadcast, 0) is server.join(broadcast, 0) is broadcast


def test_only_variances_are_kept_from_below_zero():
    extra = torch.tensor([9.0, -1.0, -2.0, -3.0, 4.0])  # 9 is a solver's; two means
    joined = server.join(Broadcast(torch.zeros(1), extra, torch.ones(())), 4)
    assert joined.w.tolist() == [0, -1, -2, 0, 4] and joined.extra.tolist() == [9]


# Of all clients


SLOW = pytest.mark.slow("trains two federations of a deeper network")


@pytest.mark.parametrize(
    ("model", "plan", "optimizer"),
    [
        ("strangers:first", Plan("loop", 1), "adam"),
        ("strangers:first", Plan("vmap", 2), "sgd"),
        pytest.param("strangers:narrow", Plan("loop", 1), "sgd", marks=SLOW),
        pytest.param("strangers:narrow", Plan("vmap", 2), "adam", marks=SLOW),
    ],
)
def test_identical_clients_are_one_client(tmp_path, model, plan, optimizer):
    draw = np.random.default_rng(1)
    x, y = draw.normal(size=(12, D)), np.arange(12) % 2
    split = np.where(np.arange(12) < 9, "train", "test")
    found = []
    for clients in (1, 3):
        who = np.repeat(np.arange(clients), 12)
        many = {"x": x, "y": y, "split": split}
        many = {k: np.concatenate([v] * clients) for k, v in many.items()}
        file = tmp_path / f"{clients}.npz"
        np.savez(file, owner=who, **many)
        train = {"rounds": 5, "optimizer": optimizer, "weight_decay": 0.01}
        federation = made(file, model, plan=plan, train=train)
        list(federation.train())
        found.append(federation.broadcast.w)
    assert torch.allclose(found[0], found[1], rtol=0, atol=1e-12)
    assert not torch.allclose(found[0], made(file, model).broadcast.w, atol=0.01)


@pytest.mark.parametrize("momentum", [0.1, 1.0])
def test_statistics_of_all_clients_count_alike(path, momentum):
    """Trap 9: a server that averages parameters keeps those of one client."""
    model = {"name": "strangers:first", "momentum": momentum}
    federation = made(path, model, train={"lr": 0.0})
    w0 = federation.broadcast.w.clone()
    list(federation.train())
    w = federation.broadcast.w
    each = statistics(path, steps=2, momentum=momentum)
    assert torch.allclose(tail(w), each.mean(0), atol=1e-12)
    assert torch.equal(w[: -2 * D], w0[: -2 * D])  # no step was taken
    assert not torch.allclose(tail(w), each[0], atol=0.1)


def test_the_median_of_statistics_where_it_is_wished(path):
    each = statistics(path, steps=2)
    wishes: list[tuple[dict[str, Any], Tensor]] = [
        ({"aggregator": "mean"}, each.mean(0)),
        ({"aggregator": "median"}, each.median(0).values),  # robust where the rest is
        ({"train": {"statistics": "median"}}, each.median(0).values),
        ({"train": {"statistics": "mean"}, "aggregator": "median"}, each.mean(0)),
    ]
    for sections, expected in wishes:
        federation = made(path, **sections)
        federation.step()
        assert torch.allclose(tail(federation.broadcast.w), expected, atol=1e-12)


def test_only_those_asked_count(path):
    federation = made(path, train={"cohort": 2})
    record = federation.step()
    each = statistics(path, steps=2)[record.cohort]
    assert torch.allclose(tail(federation.broadcast.w), each.mean(0), atol=1e-12)


# Out of everybody's hands


HOSTILE = {"adversary": {"clients": [1]}, "corruption": "none"}


@pytest.mark.parametrize("value", [-1e30, 1e6])
def test_no_message_makes_a_variance_negative(path, value):
    attack = {"name": "strangers:poison", "value": value}
    federation = made(path, train={"rounds": 3}, attack=attack, **HOSTILE)
    x = torch.randn(6, D, dtype=torch.float64)
    for record in federation.train():
        w = record.broadcast.w
        assert w.isfinite().all() and (w[-D:] >= 0).all()
        if value < 0:
            assert (w[-D:] == 0).all()  # as far as it can be driven
        assert federation.engine.task.predict(w, x).isfinite().all()


def test_under_the_median_one_of_five_stays_within_the_others(path):
    each = statistics(path, steps=2)[[0, 2, 3, 4]]
    for value in (-1e6, 1e6, 0.5):
        federation = made(
            path,
            train={"statistics": "median"},
            attack={"name": "strangers:poison", "value": value},
            **HOSTILE,
        )
        federation.step()
        found = tail(federation.broadcast.w)
        assert (found >= each.amin(0) - 1e-12).all()
        assert (found <= each.amax(0) + 1e-12).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_statistics_that_are_no_numbers_drop_the_message(path, value):
    attack = {"name": "strangers:poison", "value": value}
    federation = made(path, attack=attack, **HOSTILE)
    record = federation.step()
    assert record.dropped == {"drop_invalid": [1]}
    assert record.messages.client.tolist() == [0, 2, 3, 4]
    each = statistics(path, steps=2)[[0, 2, 3, 4]]
    assert torch.allclose(tail(record.broadcast.w), each.mean(0), atol=1e-12)


def test_inputs_too_large_for_a_variance_drop_the_message(path):
    """10³⁰ is a float32, its square is none."""
    federation = made(
        path,
        train={"precision": "float32", "rounds": 2},
        adversary={"clients": [3]},
        corruption={"name": "strangers:huge"},
    )
    for record in federation.train():
        assert record.dropped == {"drop_invalid": [3]}
        assert record.broadcast.w.isfinite().all()
        assert (record.broadcast.w[-D:] > 0).all()


def test_when_all_are_dropped_statistics_stay(path):
    hostile = {"adversary": {"clients": [0, 1, 2, 3]}, "corruption": "none"}
    attack = {"name": "strangers:poison", "value": math.nan}
    federation = made(path, train={"rounds": 2}, attack=attack, **hostile)
    federation.sample = lambda r: np.arange(4)  # type: ignore[assignment]
    w0 = federation.broadcast.w.clone()
    for record in federation.train():
        assert record.stayed and torch.equal(record.broadcast.w, w0)


@pytest.mark.parametrize("factor", [0.0, 7.0])
def test_model_replacement_leaves_statistics_alone(path, factor):
    attack = {"name": "model_replacement", "factor": factor}
    one, two = made(path, attack=attack, **HOSTILE), made(path, **HOSTILE)
    attacked, honest = one.step(), two.step()
    assert torch.equal(attacked.messages.extra, honest.messages.extra)
    found, expected = attacked.messages.update[1], honest.messages.update[1]
    assert torch.allclose(found, (factor or N) * expected)
    assert torch.equal(tail(one.broadcast.w), tail(two.broadcast.w))


def test_rules_see_parameters_and_beside_them_statistics(path, mod):
    federation = made(
        path,
        filter=["strangers:passing"],
        aggregator="strangers:looking",
        server="strangers:serving",
        train={"statistics": "mean", "rounds": 2},
    )
    head = D * 2 + 2 + 2 * D
    assert len(federation.broadcast.w) == head + 2 * D
    for _ in range(2):
        before = federation.broadcast.w.clone()
        record = federation.step()
        for kind in ("filter", "aggregator"):
            sent, broadcast = mod.seen[kind]
            assert sent.update.shape == (N, head) and broadcast.w.shape == (head,)
            assert torch.equal(broadcast.w, before[:head])
            assert sent.extra.shape == (N, 2 * D)
            assert torch.equal(broadcast.extra, before[head:])
        broadcast, step = mod.seen["server"]
        assert step.shape == broadcast.w.shape == (head,)
        step = record.broadcast.w - before
        assert record.moved == pytest.approx(float(step[:head].norm()), rel=1e-12)


def test_the_facts_count_parameters_alone(path):
    ready = built(path)
    trained = [p.numel() for p in ready.network.parameters() if p.requires_grad]
    assert (
        ready.facts["parameters"]
        == sum(trained)
        == len(task.flatten(ready.network)) - 2 * D
    )


def test_what_a_solver_sends_beside_goes_its_own_way(path):
    """SCAFFOLD's kind: its numbers by the aggregator, statistics by their own rule."""
    federation = made(
        path,
        solver="strangers:telling",
        aggregator="median",
        train={"rounds": 2, "statistics": "mean"},
    )
    each = statistics(path, steps=2)
    record = federation.step()
    assert record.messages.extra.shape == (N, 2 + 2 * D)
    assert federation.broadcast.extra.tolist() == [1, float(np.median(SIZES)) - 1]
    assert torch.allclose(tail(federation.broadcast.w), each.mean(0), atol=1e-12)
    federation.step()
    assert federation.broadcast.extra.tolist() == [2, 2 * (np.median(SIZES) - 1)]


# Within a client


@pytest.mark.parametrize(
    "train",
    [
        {"optimizer": "sgd", "lr": 100.0},
        {"optimizer": {"name": "momentum", "beta": 0.99}, "lr": 0.5},
        {"optimizer": "adam", "lr": 0.5},
        {"weight_decay": 10.0, "lr": 0.01},
        {"weight_decay": 0.5, "optimizer": "adam", "lr": 0.0},
        {"schedule": "cosine", "lr": 3.0},
    ],
)
def test_no_optimiser_touches_the_tail(path, train):
    """The first layer sees the data alone, however the rest of it moves."""
    federation = made(path, train=train, personalizer="local")
    federation.step()
    each = statistics(path, steps=2)
    assert torch.allclose(tail(federation.broadcast.w), each.mean(0), atol=1e-12)
    engine, rows = federation.engine, federation.population.read(np.arange(N))
    models = engine.models(federation.broadcast.w, rows)
    assert torch.allclose(tail(models), each, atol=1e-12)


def test_ditto_pulls_parameters_and_leaves_statistics(path):
    ditto = {"name": "ditto", "lam": 1000.0, "lr": 0.001}  # v = w − lr·∇F: lr·λ = 1
    federation = made(path, personalizer=ditto, train={"rounds": 6})
    for _ in range(6):
        before = federation.broadcast.w.clone()
        federation.step()
    rows = federation.population.read(np.arange(N))
    models = federation.engine.models(federation.broadcast.w, rows)
    each = statistics(path, steps=12)
    assert torch.allclose(tail(models), each, atol=1e-12)
    head = before.shape[0] - 2 * D
    assert (models[:, :head] - before[:head]).abs().max() < 0.01
    assert (tail(models) - tail(before)).abs().max() > 1


FEW = [Plan("vmap", 2)]
PLANS = [Plan("vmap", 1), Plan("vmap", 2), Plan("vmap", N), Plan("threads", 1, 2)]
MANY = pytest.mark.slow("traces a deep network for every plan")


@pytest.mark.parametrize(
    ("model", "personalizer", "batch", "plans"),
    [
        ("first", "ditto", 4, FEW),
        pytest.param("deep", "local", 1, PLANS, marks=MANY),
        pytest.param("deep", "ditto", 4, PLANS, marks=MANY),
    ],
)
def test_every_plan_comes_to_the_same(path, model, personalizer, batch, plans):
    def trained(plan):
        train = {"batch": batch, "rounds": 2, "optimizer": "momentum", "cohort": 4}
        more = {"train": train, "personalizer": personalizer}
        federation = made(path, f"strangers:{model}", plan=plan, **more)
        list(federation.train())
        rows = federation.population.read(np.arange(N))
        return torch.cat([federation.broadcast.w, rows.flatten()])

    expected = trained(Plan("loop", 1))
    assert expected.isfinite().all()
    for plan in plans:
        assert torch.allclose(trained(plan), expected, rtol=0, atol=1e-10), plan


@pytest.mark.parametrize(
    "plan",
    [
        Plan("loop", 1),
        Plan("threads", 1),
        pytest.param(Plan("vmap", 3), marks=pytest.mark.slow("traces two networks")),
    ],
)
def test_bfloat16_trains(path, plan):
    train = {"precision": "bfloat16", "rounds": 3}
    low = made(path, "strangers:narrow", plan=plan, train=train)
    high = made(path, "strangers:narrow", train=train | {"precision": "float32"})
    w0 = low.broadcast.w.clone()
    assert w0.dtype == torch.float32
    for federation in (low, high):
        list(federation.train())
    step, exact = low.broadcast.w - w0, high.broadcast.w - w0
    assert (step - exact).norm() < 0.1 * exact.norm()
    assert (low.broadcast.w[-9:] > 0).all()  # variances of both layers


# To the end


@pytest.mark.slow("a deep network trained, killed and resumed")
def test_going_on_is_bit_exact(path, tmp_path):
    whole = tree(
        path,
        "strangers:deep",
        train={"rounds": 4, "batch": 4, "precision": "float32", "augment": ["noise"]},
        personalizer={"name": "ditto", "lam": 0.5},
        checkpoint={"every": 1},
        engine={"how": "vmap", "chunk": 2, "device": "cpu"},
    )
    troth.run(whole, out=tmp_path / "whole")

    def watch(progress):
        if progress.done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        troth.run(whole, out=tmp_path / "parts", watch=watch)
    troth.resume(tmp_path / "parts")
    for name in (files.SHARED, files.PERSONAL, files.CLIENTS, files.ROUNDS):
        one, two = ((tmp_path / k / name).read_bytes() for k in ("whole", "parts"))
        assert one == two, name


FREEZES: dict[str, list[str]] = {
    "nothing": [],
    "a layer": ["1.*"],
    "its statistics": ["2.running_*"],
    "all of a norm": ["2.*"],
    "all but norms": ["1.*", "5.*", "8.*"],
}


@pytest.mark.parametrize(
    ("freeze", "personalizer"),
    [
        ("all but norms", "ditto"),
        *(
            pytest.param(freeze, who, marks=pytest.mark.slow("a run of each"))
            for freeze in FREEZES
            for who in ("none", "ditto")
            if (freeze, who) != ("all but norms", "ditto")
        ),
    ],
)
def test_a_loaded_model_predicts_as_it_was_evaluated(
    path, tmp_path, freeze, personalizer
):
    whole = tree(
        path,
        {"name": "strangers:deep", "freeze": FREEZES[freeze]},
        train={"rounds": 3},
        personalizer=personalizer,
    )
    [run] = troth.run(whole, out=tmp_path / "run")
    data = build.build(run.experiment).data
    for k in range(N):
        own = slice(
            int(data.test.start[k]), int(data.test.start[k] + data.test.size[k])
        )
        x, y = data.x[data.test.row[own]], data.test.y[own]
        for net, prefix in ((run.model(k), ""), (run.shared(k), "shared_")):
            norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm1d)]
            assert len(norms) == 2 and not any(m.training for m in net.modules())
            with torch.no_grad():
                loss = nn.functional.cross_entropy(net(x), y)
                again = nn.functional.cross_entropy(net(x), y)
            assert torch.equal(loss, again)  # nothing drops out, nothing moves
            column = run.clients[f"{prefix}loss"]
            assert column[k] == pytest.approx(float(loss), rel=1e-9)
            moved = [bool((m.running_var != 1).any()) for m in norms]
            still = freeze in ("its statistics", "all of a norm")
            assert moved == [not still, True]


def test_a_class_of_statistics_that_is_none_is_refused(path):
    with pytest.raises(Refusal, match=r"train\.statistics = 'krum'"):
        made(path, train={"statistics": "krum"})
