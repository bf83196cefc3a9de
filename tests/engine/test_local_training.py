"""The main promise: however clients step, the numbers are those of a plain loop."""

import itertools
import os
import shutil
import threading
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from troth import build, lookup
from troth.config import reader
from troth.engine.local_training import Plan, spread
from troth.engine.vmap import Lifted
from troth.networks import kernels, task

SIZES = [5, 9, 16, 26, 2, 14, 33]  # examples of each client
COHORT = 5
LOOP = Plan("loop", 1)
TOGETHER = Plan("vmap", COHORT)
CHUNKS = Plan("vmap", 2)  # which do not divide the cohort
TWO_WORKERS = Plan("vmap", 2, 2)  # chunks on two threads
THREADS = Plan("threads", 1, 2)
PLANS = [TOGETHER, CHUNKS, TWO_WORKERS, THREADS]
MODELS = {  # smaller than their defaults
    "cnn": {"channels": [2, 3], "widths": [], "kernel": 3},
    "mlp": {"widths": [6]},
    "celeba_cnn": {"channels": 2, "blocks": 1},
}
DEEP = ("resnet18", "vgg13_bn")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of clients of unequal size, in two and in three classes."""
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("data")
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    x = random.integers(0, 256, (len(owner), 6, 6), dtype=np.uint8)
    for classes in (2, 3):
        y = random.integers(0, classes, len(owner))
        np.savez(path / f"{classes}.npz", x=x, y=y, owner=owner)
    return path


class State(NamedTuple):
    w: Tensor
    rows: Tensor


def experiment(folder, model="mlp", personalizer="ditto", train=(), **sections):
    classes = 2 if model == "svm" else 3
    base = {"rounds": 5, "cohort": COHORT, "batch": 4, "lr": 0.05}
    base |= {"precision": "float64"} | ({} if "steps" in train else {"epochs": 2})
    tree = {
        "seed": 3,
        "data": {"name": "npz", "path": str(folder / f"{classes}.npz")},
        "partition": {"name": "natural", "split": [0.7, 0.1, 0.2]},
        "model": {"name": model, **MODELS.get(model, {})},
        "train": base | dict(train),
        "adversary": {"fraction": 0.2},
        "attack": "model_replacement",
        "personalizer": personalizer,
        "engine": {"device": "cpu"},
    }
    return reader.from_dict(tree | sections)


def trained(wanted, plan):
    federation = build.build(wanted, plan=plan).federation
    *_, _ = federation.train()
    assert federation.engine.plan == plan and federation.round == wanted.train.rounds
    everyone = np.arange(federation.population.n)
    return State(federation.broadcast.w, federation.population.read(everyone))


def assert_near(found, expected, atol, what=""):
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert a.isfinite().all()
        assert not a.numel() or (a - b).abs().max() <= atol, what


def assert_all_plans_agree(wanted, plans=PLANS):
    expected = trained(wanted, LOOP)
    for plan in plans:
        atol = TOLERANCE[wanted.train.precision]
        assert_near(trained(wanted, plan), expected, atol, plan)
    return expected


AGREE = [  # not all with all: a trace takes half a second
    (model, personalizer, precision, plans)
    for model in lookup.names("model")
    if model not in DEEP
    for personalizer, precision, plans in [
        ("none", "float32", [CHUNKS, THREADS]),
        ("local", "float64", [TOGETHER, THREADS]),
        ("ditto", "float64", [TWO_WORKERS, THREADS]),
        ("ditto", "float32", [CHUNKS, THREADS]),
    ]
]
QUICK = {("mlp", "none", "float32"), ("cnn", "local", "float64")}
QUICK |= {(name, "ditto", "float64") for name in ("linear", "svm")}
SWEEP = pytest.mark.slow("every model with every kind of state")


@pytest.mark.parametrize(
    ("model", "personalizer", "precision", "plans"),
    [pytest.param(*a, marks=() if a[:3] in QUICK else SWEEP) for a in AGREE],
)
def test_loop_vmap_chunks_and_threads_agree(
    folder, model, personalizer, precision, plans
):
    train = {"precision": precision, "epochs": 1, "rounds": 3}
    wanted = experiment(folder, model, personalizer, train)
    before = build.build(wanted, plan=LOOP)
    assert sum(before.hostile) == 2  # 20 % of 7, rounded up
    assert len(set(before.data.train.size.tolist())) == len(SIZES)
    state = assert_all_plans_agree(wanted, plans)
    start = before.federation.broadcast.w
    assert (state.w - start).abs().max() > 1e-3  # it has learnt something
    width = 0 if personalizer == "none" else len(start)
    assert state.rows.shape == (len(SIZES), width)
    if width:
        assert (state.rows - state.w).abs().amax(1).min() > 1e-4


COMING = {"join": 0.3, "drop": 0.2, "deadline": 0.6}
COMING |= {"speed_spread": 0.7, "speed_noise": 0.3}
VARIANTS = [  # train, personalizer, more
    ({"steps": 5}, {"name": "ditto", "steps": 2}, {}),
    ({"steps": 2}, {"name": "local", "steps": 5, "lr": 0.02}, {}),
    ({"steps": 3}, {"name": "ditto", "epochs": 2}, {}),
    ({"optimizer": "momentum"}, {"name": "ditto", "lam": 0.3}, {}),
    ({"optimizer": "adam", "lr": 0.01}, {"name": "ditto", "optimizer": "sgd"}, {}),
    ({"steps": 4}, {"name": "local", "optimizer": "adam", "lr": 0.01, "steps": 6}, {}),
    ({"weight_decay": 0.1}, "ditto", {}),
    ({"schedule": "cosine", "drop_last": True}, "local", {}),
    ({"batch": 0, "sampling": "size"}, "ditto", {}),
    ({"sampling": "size"}, "ditto", {"availability": COMING}),
]


@pytest.mark.slow("trains ten federations by three plans")
def test_whatever_a_client_does_and_no_two_the_same(folder):
    """All plans agree, and none of the options above is dropped in silence."""
    found = []
    for train, personalizer, more in VARIANTS:
        wanted = experiment(folder, "linear", personalizer, train, **more)
        found.append(assert_all_plans_agree(wanted, [CHUNKS, THREADS]))
    for a, b in itertools.combinations(found, 2):
        same = a.rows.shape == b.rows.shape and torch.allclose(a.rows, b.rows)
        assert not (torch.allclose(a.w, b.w) and same)


def test_the_same_bytes_again(folder):
    train = {"precision": "float32", "rounds": 2}
    wanted = experiment(folder, "linear", train=train)
    for plan in (LOOP, TWO_WORKERS, THREADS):
        first, second = trained(wanted, plan), trained(wanted, plan)
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True)), plan


@pytest.mark.slow("trains eight federations")
@pytest.mark.parametrize("name", ["mlp", "svm"])
def test_bfloat16_is_close_however_clients_step(folder, name):
    """Gradients have 8 bits: within 0.05 after five rounds (0.02 is what was seen).

    Sums in another order may round to a neighbour: 2⁻⁸ of a gradient, times lr.
    """
    low, high = (
        trained(experiment(folder, name, train={"precision": precision}), THREADS)
        for precision in ("bfloat16", "float32")
    )
    assert_near(low, high, 0.05)  # and of its type
    assert (low.w - high.w).abs().max() > 0
    if name == "mlp":
        short = experiment(folder, train={"precision": "bfloat16", "epochs": 1})
        expected = trained(short, LOOP)
        for plan in (CHUNKS, THREADS):
            assert_near(trained(short, plan), expected, 5e-3, plan)


_NO_COMPILER = not shutil.which(os.environ.get("CXX", "g++"))


@pytest.mark.slow("a compiler builds kernels")
@pytest.mark.skipif(_NO_COMPILER, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, in itself
def test_compiled_agrees(folder):
    wanted = experiment(folder, train={"steps": 3})
    assert_all_plans_agree(wanted, [Plan("compiled", COHORT)])


# Against a loop written out in plain torch


def _loss(made, own):
    """Of the network on some training slots."""
    x, y = made.data.x[made.data.train.row[own]], made.data.train.y[own]
    return cross_entropy(made.network(x), y)


@pytest.mark.parametrize("plan", [LOOP, Plan("vmap", 1), Plan("threads", 1, 1)])
@pytest.mark.parametrize("batch", [4, 0])
def test_one_client_with_all_data_is_plain_sgd(folder, plan, batch):
    alone = {"partition": {"name": "iid", "clients": 1}, "adversary": {}}
    train = {"cohort": 1, "batch": batch, "lr": 0.3}
    wanted = experiment(folder, "mlp", "none", train, attack="none", **alone)
    made = build.build(wanted, plan=plan)
    feed = made.federation.engine.feed
    optimizer = torch.optim.SGD(made.network.parameters(), lr=0.3)
    seen = 0
    for r in range(5):
        drawn = feed.draw(np.array([0]), 2 * int(feed.per_epoch[0]), r)
        for slots, weight in zip(*drawn, strict=True):
            own = slots[0][weight[0] > 0]
            seen += len(own)
            optimizer.zero_grad()
            _loss(made, own).backward()
            optimizer.step()
    assert seen == 5 * 2 * int(made.data.train.size[0])
    expected = task.flatten(made.network)
    *_, _ = made.federation.train()
    assert (made.federation.broadcast.w - expected).abs().max() <= 1e-12


def _gradient(made, v, own):
    task.assign(made.network, v)
    found = torch.autograd.grad(_loss(made, own), list(made.network.parameters()))
    return torch.cat([g.reshape(-1) for g in found])


def test_two_rounds_of_ditto_written_out(folder):
    """Algorithm 2 of the paper, for a cohort, an attack and the mean."""
    lr, lam = 0.1, 0.7
    train = {"rounds": 2, "lr": lr, "epochs": 1}
    wanted = experiment(folder, "mlp", {"name": "ditto", "lam": lam}, train)
    made = build.build(wanted, plan=CHUNKS)
    f, feed = made.federation, made.federation.engine.feed
    w = f.broadcast.w.clone()
    v = w.repeat(len(SIZES), 1)
    for r in range(2):
        updates = []
        for k in f.sample(r):
            moving = w.clone()
            slots, weight = feed.draw(np.array([k]), int(feed.per_epoch[k]), r)
            for row, part in zip(slots[:, 0], weight[:, 0], strict=True):
                own = row[part > 0]
                v[k] = v[k] - lr * (_gradient(made, v[k], own) + lam * (v[k] - w))
                moving = moving - lr * _gradient(made, moving, own)
            updates.append((COHORT if made.hostile[k] else 1) * (moving - w))
        w = w + torch.stack(updates).mean(0)
    assert_near(trained(wanted, CHUNKS), State(w, v), 1e-12)


# The engine by itself


def engine_of(folder, plan, personalizer="ditto"):
    return build.build(experiment(folder, "mlp", personalizer), plan=plan)


@pytest.mark.parametrize("plan", [LOOP, TOGETHER, TWO_WORKERS, THREADS])
def test_asked_twice_in_a_round_it_starts_from_the_same_state(folder, plan):
    """What a client is given is not changed, and what it gave is not overwritten."""
    ids, made = np.array([6, 0, 4]), engine_of(folder, plan)
    f = made.federation
    run, w = f.engine.run, f.broadcast.w
    rows = f.population.read(ids)
    before = rows.clone(), w.clone()
    messages, new = run("local", f.broadcast, rows, ids, 0)
    assert messages.client.tolist() == ids.tolist()
    assert messages.size.tolist() == made.data.train.size[ids].tolist()
    assert messages.update.shape == (3, f.engine.task.d)
    assert messages.extra.shape == (3, 0) and messages.loss.isnan().all()
    kept = messages.update.clone(), new.clone()
    run("local", f.broadcast, new, ids, 1)
    again, same = run("local", f.broadcast, rows, ids, 0)
    pairs = [(messages.update, kept[0]), (again.update, kept[0]), (new, kept[1])]
    pairs += [(same, kept[1]), (rows, before[0]), (w, before[1])]
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("plan", [LOOP, CHUNKS, THREADS])
def test_a_client_steps_alike_alone_and_in_any_company(folder, plan):
    f = engine_of(folder, plan).federation
    everyone = np.arange(len(SIZES))
    rows = f.population.read(everyone)
    together, states = f.engine.run("local", f.broadcast, rows, everyone, 2)
    for ids in (np.array([3]), np.array([5, 3, 0])):
        some, own = f.engine.run("local", f.broadcast, rows[ids], ids, 2)
        assert (some.update - together.update[ids]).abs().max() < 1e-12
        assert (own - states[ids]).abs().max() < 1e-12


def test_predictions_of_every_plan_are_those_of_the_network(folder):
    made = engine_of(folder, LOOP)
    engine, x = made.federation.engine, made.data.x[:12].reshape(3, 4, 6, 6)
    models = torch.randn(3, engine.task.d, dtype=torch.float64)
    for plan in (LOOP, *PLANS):
        engine.use(plan)
        found = engine.predict(models, x)
        for k in range(3):
            task.assign(made.network, models[k])
            assert (found[k] - made.network(x[k])).abs().max() < 1e-12


@pytest.mark.parametrize("plan", [LOOP, TOGETHER, CHUNKS, THREADS])
def test_every_client_may_have_its_own_limit(folder, plan):
    f = engine_of(folder, plan).federation
    ids, limit = np.array([6, 3, 4, 2, 0]), np.array([3, 7, 99, 1, 2])
    run, rows = f.engine.run, f.population.read(ids)
    cut, states = run("local", f.broadcast, rows, ids, 0, limit)
    f.engine.use(LOOP)
    for k, most in enumerate(limit.tolist()):
        at = slice(k, k + 1)
        own, state = run("local", f.broadcast, rows[at], ids[at], 0, limit=most)
        assert (cut.update[k] - own.update[0]).abs().max() < 1e-12
        assert (states[k] - state[0]).abs().max() < 1e-12
    whole, _ = run("local", f.broadcast, rows, ids, 0)
    same = (cut.update - whole.update).abs().amax(1) < 1e-12
    assert same.tolist() == [False, False, True, False, True]  # 12, 10, 2, 6, 2 steps


def test_unequal_cohorts_are_traced_in_few_shapes(folder):
    f = engine_of(folder, LOOP, "none").federation
    everyone = np.arange(7)
    run, rows = f.engine.run, f.population.read(everyone)
    expected, _ = run("local", f.broadcast, rows, everyone, 0, limit=1)
    f.engine.use(Plan("vmap", 7))
    for n in range(1, 8):
        found, _ = run("local", f.broadcast, rows[:n], everyone[:n], 0, limit=1)
        assert found.client.tolist() == list(range(n))
        assert (found.update - expected.update[:n]).abs().max() < 1e-12
    traced = f.engine._lifted["local.begin", "vmap", False]._traces
    assert {shape[0] for (shape, _), *_ in traced} == {7, 4, 2, 1}


@pytest.mark.slow("deep networks, with batches that are filled and padded")
@pytest.mark.parametrize(
    ("model", "width", "size", "precision", "lr", "atol"),
    [  # of batches of 8, 11 examples are padded
        # in float32 a ReLU on its edge falls to either side: small steps
        ("resnet18", 64, 8, "float32", 3e-4, 1e-4),
        ("vgg13_bn", 64, 11, "float32", 3e-4, 1e-4),
        ("resnet18", 4, 8, "float64", 0.05, 1e-10),
        ("resnet18", 4, 11, "float64", 0.05, 1e-10),
        ("vgg13_bn", 4, 8, "float64", 0.05, 1e-10),
        ("vgg13_bn", 4, 11, "float64", 0.05, 1e-10),
    ],
)
def test_deep_networks_with_batch_normalisation(
    tmp_path, model, width, size, precision, lr, atol
):
    random = np.random.default_rng(1)
    x = random.integers(0, 256, (2 * size + 4, 3, 32, 32), dtype=np.uint8)
    owner, split = np.repeat([0, 1], len(x) // 2), np.zeros(len(x), int)
    split[[size, size + 1, -1, -2]] = 2
    y = np.arange(len(x)) % 2
    np.savez(tmp_path / "images.npz", x=x, y=y, owner=owner, split=split)
    train = {"rounds": 1, "steps": 10, "batch": 8, "lr": lr, "precision": precision}
    options = {"widths": [16], "dropout": 0.5} if model == "vgg13_bn" else {}
    tree = {
        "data": {"name": "npz", "path": str(tmp_path / "images.npz")},
        "partition": {"name": "natural", "split": "given"},
        "model": {"name": model, "width": width, **options},
        "train": train,
        "engine": {"device": "cpu"},
    }
    wanted = reader.from_dict(tree)
    loop, together = trained(wanted, LOOP), trained(wanted, Plan("vmap", 2))
    assert (loop.w - together.w).abs().max() <= atol
    before = build.build(wanted, plan=LOOP).federation
    tail = before.engine.task.tail
    assert tail and (loop.w - before.broadcast.w)[-tail:].abs().max() > 0.1


# Work spread over threads comes back in order, and cores are given back


def test_every_piece_once_in_order_by_its_worker():
    for n, workers in itertools.product([0, 1, 2, 7, 20], [1, 2, 3, 7]):
        seen = spread(lambda w, k: (w, k, threading.get_ident()), n, workers)
        each = max(1, min(workers, n))
        assert [(w, k) for w, k, _ in seen] == [(k % each, k) for k in range(n)]
        if each > 1:
            assert all(ident != threading.get_ident() for *_, ident in seen)


def test_one_core_each_and_given_back_after_a_failure():
    torch.set_num_threads(2)
    assert spread(lambda w, k: torch.get_num_threads(), 4, 2) == [1] * 4
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError):
        spread(lambda w, k: 1 // (k - 2), 4, 2)
    assert torch.get_num_threads() == 2
    with torch.no_grad():  # which every thread has to be told
        assert spread(lambda w, k: torch.is_grad_enabled(), 3, 2) == [False] * 3


def test_what_is_drawn_ahead_is_used_once_and_by_the_same_clients(tree, monkeypatch):
    tree["train"] |= {"cohort": 4, "epochs": 1}
    f = build.build(reader.from_dict(tree), plan=Plan("vmap", 4)).federation
    engine, ids = f.engine, np.array([1, 4, 5, 6])
    rows, calls, plain = f.population.read(ids), [], engine.feed.drawn

    def drawn(*given):
        calls.append(given[2])
        return plain(*given)

    def run(round_, ids):
        return engine.run("local", f.broadcast, rows, ids, round_)[0].update

    back = ids[::-1].copy()
    expected = [run(r, who).clone() for r, who in ((1, ids), (1, back), (2, ids))]
    monkeypatch.setattr(engine.feed, "drawn", drawn)
    engine.draw_ahead("local", np.arange(7), 1, None)
    assert calls == []  # in two chunks
    for round_, who, want, new in (
        (1, ids, expected[0], [1]),
        (1, back, expected[1], [1, 1]),  # drawn for others
        (2, ids, expected[2], [1, 2]),  # drawn for another round
    ):
        calls.clear()
        engine.draw_ahead("local", ids, 1, None)
        assert torch.equal(run(round_, who), want) and calls == new
        calls.clear()
        assert torch.equal(run(round_, who), want) and calls == [round_]


def test_kernels_are_tried_before_anything_is_traced(tree, monkeypatch):
    """Within a trace the trial fails, and the plain code would run from then on."""
    order, ready, trace = [], kernels.ready, Lifted._graph

    def traced(self, *given):
        order.append("traced")
        return trace(self, *given)

    def tried(tensor):
        order.append("tried")
        return ready(tensor)

    monkeypatch.setattr(kernels, "ready", tried)
    monkeypatch.setattr(Lifted, "_graph", traced)
    f = build.build(reader.from_dict(tree), plan=Plan("vmap", 7)).federation
    order.clear()
    engine = f.engine
    made = engine.objective, engine._make, engine.feed, f.broadcast.w, "float64"
    type(engine)(*made, Plan("vmap", 7))
    assert order == ["tried"]
    f.step()
    assert order.index("tried") < order.index("traced")
