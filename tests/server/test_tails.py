"""Running statistics through a round: of all clients, and out of everybody's hands."""

import math
import sys

import numpy as np
import pytest
import torch
from clients_sent import broadcast
from torch import nn

import troth
from troth import build
from troth.config import reader
from troth.engine.local_training import Plan
from troth.networks import task
from troth.server import server

SIZES = [4, 7, 12, 9, 15]
N, D = len(SIZES), 3
HOSTILE = {"adversary": {"clients": [1]}, "corruption": "none"}
OTHERS = [0, 2, 3, 4]

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


@pytest.fixture
def each(path):
    """What the layer of `first` has seen of every client after a round."""
    return statistics(path, steps=2)


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


def made(path, model="strangers:first", rounds=0, **more):
    """A federation, trained so many rounds."""
    federation = built(path, model, **more).federation
    for _ in range(rounds):
        federation.step()
    return federation


def poisoned(path, value, **more):
    """Client 1 sends this number in place of every statistic."""
    attack = {"name": "strangers:poison", "value": value}
    return made(path, attack=attack, **HOSTILE | more)


def statistics(path, steps, momentum=0.1):
    """[n, 2·D] means and variances, `steps` times into what a layer starts from."""
    with np.load(path) as data:
        x, owner, train = data["x"], data["owner"], data["split"] == "train"
    old, rows = (1 - momentum) ** steps, []
    for k in range(N):
        mine = x[(owner == k) & train]
        mean, var = mine.mean(0), mine.var(0, ddof=1)
        rows.append(np.concatenate([(1 - old) * mean, old + (1 - old) * var]))
    return torch.from_numpy(np.stack(rows))


def tail(vector):
    return vector[..., -2 * D :]


def ends(federation, expected):
    """Whether the shared model ends with these statistics."""
    found = tail(federation.broadcast.w)
    return torch.allclose(found, expected, atol=1e-12)


def personal(federation):
    """[N, d] every client's own model."""
    rows = federation.population.read(np.arange(N))
    return federation.engine.models(federation.broadcast.w, rows)


# Cut and joined


def test_only_variances_are_kept_from_below_zero():
    extra = torch.tensor([9.0, -1.0, -2.0, -3.0, 4.0])  # 9 is a solver's; two means
    joined = server.join(broadcast(torch.zeros(1))._replace(extra=extra), 4)
    assert joined.w.tolist() == [0, -1, -2, 0, 4] and joined.extra.tolist() == [9]


# Of all clients


@pytest.mark.parametrize(
    ("model", "plan", "optimizer"),
    [
        ("strangers:first", Plan("loop", 1), "adam"),
        ("strangers:first", Plan("vmap", 2), "sgd"),
    ],
)
def test_identical_clients_are_one_client(tmp_path, model, plan, optimizer):
    x, found = np.random.default_rng(1).normal(size=(12, D)), []
    train = {"rounds": 5, "optimizer": optimizer, "weight_decay": 0.01}
    for clients in (1, 3):
        owner, row = np.divmod(np.arange(12 * clients), 12)
        split, file = np.where(row < 9, "train", "test"), tmp_path / f"{clients}.npz"
        np.savez(file, x=x[row], y=row % 2, owner=owner, split=split)
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
    each = statistics(path, steps=2, momentum=momentum)
    assert ends(federation, each.mean(0))
    assert torch.equal(federation.broadcast.w[: -2 * D], w0[: -2 * D])  # no step taken
    assert not torch.allclose(each.mean(0), each[0], atol=0.1)


@pytest.mark.parametrize(
    ("sections", "median"),
    [
        ({"aggregator": "mean"}, False),
        ({"aggregator": "median"}, True),  # robust where the rest is
        ({"train": {"statistics": "median"}}, True),
        ({"train": {"statistics": "mean"}, "aggregator": "median"}, False),
    ],
)
def test_the_median_of_statistics_where_it_is_wished(path, each, sections, median):
    expected = each.median(0).values if median else each.mean(0)
    assert ends(made(path, rounds=1, **sections), expected)


def test_only_those_asked_count(path, each):
    federation = made(path, train={"cohort": 2})
    assert ends(federation, each[federation.step().cohort].mean(0))


# Out of everybody's hands


@pytest.mark.parametrize("value", [-1e30, 1e6])
def test_no_message_makes_a_variance_negative(path, value):
    federation = poisoned(path, value, train={"rounds": 3})
    x = torch.randn(6, D, dtype=torch.float64)
    for record in federation.train():
        w = record.broadcast.w
        assert w.isfinite().all() and (w[-D:] >= 0).all()
        assert value > 0 or not w[-D:].any()  # as far as it can be driven
        assert federation.engine.task.predict(w, x).isfinite().all()


@pytest.mark.parametrize("value", [-1e6, 1e6, 0.5])
def test_under_the_median_one_of_five_stays_within_the_others(path, each, value):
    federation = poisoned(path, value, rounds=1, train={"statistics": "median"})
    found, others = tail(federation.broadcast.w), each[OTHERS]
    assert (found >= others.amin(0) - 1e-12).all()
    assert (found <= others.amax(0) + 1e-12).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_statistics_that_are_no_numbers_drop_the_message(path, each, value):
    federation = poisoned(path, value)
    record = federation.step()
    assert record.dropped == {"drop_invalid": [1]}
    assert record.messages.client.tolist() == OTHERS
    assert ends(federation, each[OTHERS].mean(0))


def test_inputs_too_large_for_a_variance_drop_the_message(path):
    """10³⁰ is a float32, its square is none."""
    hostile = {"adversary": {"clients": [3]}, "corruption": "strangers:huge"}
    train = {"precision": "float32", "rounds": 2}
    for record in made(path, train=train, **hostile).train():
        assert record.dropped == {"drop_invalid": [3]}
        assert record.broadcast.w.isfinite().all()
        assert (record.broadcast.w[-D:] > 0).all()


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
            sent, seen = mod.seen[kind]
            assert sent.update.shape == (N, head) and sent.extra.shape == (N, 2 * D)
            assert torch.equal(seen.w, before[:head])
            assert torch.equal(seen.extra, before[head:])
        seen, step = mod.seen["server"]
        assert step.shape == seen.w.shape == (head,)
        step = record.broadcast.w - before
        assert record.moved == pytest.approx(float(step[:head].norm()), rel=1e-12)


def test_the_facts_count_parameters_alone(path):
    ready = built(path)
    trained = [p.numel() for p in ready.network.parameters() if p.requires_grad]
    assert ready.facts["parameters"] == sum(trained)
    assert sum(trained) == len(task.flatten(ready.network)) - 2 * D


def test_what_a_solver_sends_beside_goes_its_own_way(path, each):
    """SCAFFOLD's kind: its numbers by the aggregator, statistics by their own rule."""
    train = {"rounds": 2, "statistics": "mean"}
    own = {"solver": "strangers:telling", "aggregator": "median"}
    federation = made(path, train=train, **own)
    assert federation.step().messages.extra.shape == (N, 2 + 2 * D)
    assert federation.broadcast.extra.tolist() == [1, float(np.median(SIZES)) - 1]
    assert ends(federation, each.mean(0))
    federation.step()
    assert federation.broadcast.extra.tolist() == [2, 2 * (np.median(SIZES) - 1)]


# Within a client


@pytest.mark.parametrize(
    "train",
    [
        {"optimizer": "sgd", "lr": 100.0},
        {"optimizer": {"name": "momentum", "beta": 0.99}, "lr": 0.5},
        {"optimizer": "adam", "lr": 0.5},
        {"weight_decay": 0.5, "optimizer": "adam", "lr": 0.0},
    ],
)
def test_no_optimiser_touches_the_tail(path, each, train):
    """The first layer sees the data alone, however the rest of it moves."""
    federation = made(path, rounds=1, train=train, personalizer="local")
    assert ends(federation, each.mean(0))
    assert torch.allclose(tail(personal(federation)), each, atol=1e-12)


def test_ditto_pulls_parameters_and_leaves_statistics(path):
    ditto = {"name": "ditto", "lam": 1000.0, "lr": 0.001}  # v = w − lr·∇F: lr·λ = 1
    federation = made(path, rounds=5, personalizer=ditto, train={"rounds": 6})
    before = federation.broadcast.w.clone()
    federation.step()
    models = personal(federation)
    assert torch.allclose(tail(models), statistics(path, steps=12), atol=1e-12)
    assert (models - before)[:, : -2 * D].abs().max() < 0.01
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


TRACES = pytest.mark.slow("traces two networks")
LOW = [Plan("loop", 1), Plan("threads", 1), pytest.param(Plan("vmap", 3), marks=TRACES)]


@pytest.mark.parametrize("plan", LOW)
def test_bfloat16_trains(path, plan):
    trained = []
    for precision, how in (("bfloat16", plan), ("float32", None)):
        train = {"precision": precision, "rounds": 3}
        federation = made(path, "strangers:narrow", plan=how, train=train)
        w0 = federation.broadcast.w.clone()
        list(federation.train())
        trained.append(federation.broadcast.w)
    low, high = trained
    assert w0.dtype == low.dtype == torch.float32
    assert (low - high).norm() < 0.1 * (high - w0).norm()
    assert (low[-9:] > 0).all()  # variances of both layers


# To the end


@pytest.mark.slow("a deep network trained, killed and resumed")
def test_going_on_is_bit_exact(path, tmp_path, killed, contents):
    train = {"rounds": 4, "batch": 4, "precision": "float32", "augment": ["noise"]}
    whole = tree(
        path,
        "strangers:deep",
        train=train,
        personalizer={"name": "ditto", "lam": 0.5},
        checkpoint={"every": 1},
        engine={"how": "vmap", "chunk": 2, "device": "cpu"},
    )
    troth.run(whole, out=tmp_path / "whole")
    killed(whole, 2, tmp_path / "cut")
    troth.resume(tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


# Loaded again


FREEZES = {
    "its statistics": ["2.running_*"],
    "all of a norm": ["2.*"],
    "all but norms": ["1.*", "5.*", "8.*"],
}
FAST = "all but norms", "ditto"
CASES = [(freeze, who) for freeze in FREEZES for who in ("none", "ditto")]
EACH = pytest.mark.slow("a run of each")


@pytest.mark.parametrize(
    ("freeze", "personalizer"),
    [FAST, *(pytest.param(*case, marks=EACH) for case in CASES if case != FAST)],
)
def test_a_loaded_model_predicts_as_it_was_evaluated(
    path, tmp_path, freeze, personalizer
):
    model = {"name": "strangers:deep", "freeze": FREEZES[freeze]}
    whole = tree(path, model, train={"rounds": 3}, personalizer=personalizer)
    [run] = troth.run(whole, out=tmp_path / "run")
    data = build.build(run.experiment).data
    still = freeze in ("its statistics", "all of a norm")
    for k in range(N):
        start = int(data.test.start[k])
        own = slice(start, start + int(data.test.size[k]))
        x, y = data.x[data.test.row[own]], data.test.y[own]
        for net, column in ((run.model(k), "loss"), (run.shared(k), "shared_loss")):
            norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm1d)]
            assert len(norms) == 2 and not any(m.training for m in net.modules())
            with torch.no_grad():
                loss, again = (nn.functional.cross_entropy(net(x), y) for _ in "12")
            assert torch.equal(loss, again)  # nothing drops out, nothing moves
            assert run.clients[column][k] == pytest.approx(float(loss), rel=1e-9)
            moved = [bool((m.running_var != 1).any()) for m in norms]
            assert moved == [not still, True]
