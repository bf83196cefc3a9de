from collections import defaultdict

import numpy as np
import pytest
import torch

from troth import build
from troth.config import reader
from troth.engine.local_training import Plan
from troth.evaluation import evaluate
from troth.networks import task

SIZES = [7, 40, 12, 25, 10, 4, 31]
N = len(SIZES)
PLANS = [Plan("loop", 1), Plan("vmap", 3), Plan("vmap", 2, 2), Plan("threads", 1, 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("data")
    owner = np.repeat(np.arange(N), SIZES)
    images = random.integers(0, 256, (len(owner), 6, 6), dtype=np.uint8)
    for classes in (2, 3):
        y = random.integers(0, classes, len(owner))
        np.savez(folder / f"{classes}.npz", x=images, y=y, owner=owner)
    np.savez(folder / "0.npz", x=images, y=random.random(len(owner)), owner=owner)
    return folder


def built(folder, plan, model="linear", classes=3, **train):
    tree = {
        "data": {"name": "npz", "path": str(folder / f"{classes}.npz")},
        "partition": {"name": "natural", "split": [0.5, 0.1, 0.4]},
        "model": model,
        "train": {"rounds": 2, "cohort": 4, "precision": "float64", **train},
        "personalizer": "ditto",
        "engine": {"device": "cpu"},
    }
    made = build.build(reader.from_dict(tree), plan=PLANS[3])
    assert len([*made.federation.train()]) == 2
    made.federation.engine.use(plan)
    return made


def examples(made, split, k):
    """Inputs and labels of a client."""
    own = slice(int(split.start[k]), int(split.start[k]) + int(split.size[k]))
    return made.data.x[split.row[own]], split.y[own]


@torch.no_grad()
def plainly(made, models, split, ids):
    """Client by client, with the network itself; `score` has tests of its own."""
    table, classes = defaultdict(list), made.facts["classes"]
    losses = task.Objective(made.network, classes).per_example
    for k in ids:
        x, y = examples(made, split, k)
        task.assign(made.network, models[k])
        out = made.network(x)
        mine = evaluate.score(out, y, losses(out, y), np.array([len(y)]), classes)
        for name, column in mine.items():
            table[name].append(column[0])
    return table


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert found[name] == pytest.approx(np.array(values), abs=1e-12, nan_ok=True)


def check(made, split, ids):
    """Both tables against the plain loop; clients without examples have no score."""
    f, have = made.federation, np.flatnonzero(split.size.numpy()[ids])
    w, rows = f.broadcast.w, f.population.read(np.arange(N))
    assert (rows - rows[0]).abs().max() > 0
    for found, models in (
        (evaluate.shared(f.engine, w, split, ids), w.expand(N, -1)),
        (evaluate.personal(f.engine, w, f.population, split, ids), rows),
    ):
        expected = plainly(made, models, split, ids[have])
        assert_same({k: v[have] for k, v in found.items()}, expected)
        assert all(np.isnan(np.delete(v, have)).all() for v in found.values())


MODELS = [
    ("linear", 3),
    ({"name": "mlp", "widths": [5]}, 2),
    ("svm", 2),
    ("linear", 0),
    ({"name": "cnn", "channels": [2], "widths": [], "kernel": 3}, 3),
]


@pytest.mark.parametrize(("model", "classes"), MODELS)
def test_shared_and_personal_are_a_plain_loop(folder, model, classes):
    made = built(folder, PLANS[0], model, classes)
    assert len(set(made.data.test.size.tolist())) > 4
    for plan in PLANS:
        made.federation.engine.use(plan)
        check(made, made.data.test, np.arange(N))


@pytest.mark.parametrize(("model", "classes"), MODELS)
def test_losses_alone_are_those_of_the_table(folder, model, classes, monkeypatch):
    made = built(folder, PLANS[0], model, classes)
    f, split, ids = made.federation, made.data.train, np.array([4, 0, 3])
    table = evaluate.shared(f.engine, f.broadcast.w, split, ids)
    first, size = f.engine.feed.places(ids)
    for some in (2048, 5):
        monkeypatch.setattr(evaluate, "_EXAMPLES", some)
        found = evaluate.losses(f.engine, f.broadcast.w, split, first, size)
        assert found.numpy() == pytest.approx(table["loss"], abs=1e-12)
    size[1] = 0
    found = evaluate.losses(f.engine, f.broadcast.w, split, first, size)
    assert found.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("plan", PLANS)
def test_some_clients_in_pieces_and_splits_that_some_lack(folder, plan, monkeypatch):
    made = built(folder, plan, "linear")
    for ids in (np.array([5]), np.array([6, 0, 3])):
        check(made, made.data.test, ids)
    valid = made.data.valid.size.tolist()
    assert 0 in valid and max(valid) > 0
    check(made, made.data.valid, np.arange(N))
    monkeypatch.setattr(evaluate, "_EXAMPLES", 5)
    monkeypatch.setattr(evaluate, "_chunk", lambda engine, population: 2)
    check(made, made.data.test, np.arange(N))


@pytest.mark.parametrize("plan", [PLANS[1], PLANS[3]])
def test_without_personal_models_both_tables_are_one(folder, plan):
    made = built(folder, plan, "linear")
    tree = reader.to_dict(made.experiment) | {"personalizer": "none"}
    f = build.build(reader.from_dict(tree), plan=plan).federation
    w, ids = f.broadcast.w, np.arange(N)
    shared = evaluate.shared(f.engine, w, made.data.test, ids)
    personal = evaluate.personal(f.engine, w, f.population, made.data.test, ids)
    assert_same(personal, {k: v.tolist() for k, v in shared.items()})


def test_personal_rows_are_read_only(folder):
    made = built(folder, PLANS[3], "linear")
    f, ids = made.federation, np.arange(N)
    before, w = f.population.read(ids), f.broadcast.w.clone()
    evaluate.personal(f.engine, f.broadcast.w, f.population, made.data.test, ids)
    evaluate.shared(f.engine, f.broadcast.w, made.data.test, ids)
    assert torch.equal(f.population.read(ids), before)
    assert torch.equal(f.broadcast.w, w)


def aim(x, y):
    """Dark images, to be taken for the next class; those of class 2 do not count."""
    return x // 4, torch.where(y == 2, -1, y + 1)


@torch.no_grad()
def succeeds(made, models, split, ids):
    """Client by client, with the network itself."""
    found = []
    for k in ids:
        x, wanted = aim(*examples(made, split, k))
        task.assign(made.network, models[k])
        hits = (made.network(x).argmax(1) == wanted)[wanted >= 0]
        found.append(float(hits.double().mean()) if len(hits) else np.nan)
    return np.array(found)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("plan", PLANS)
def test_what_an_attacker_shows_is_scored_beside(folder, plan, small, monkeypatch):
    made = built(folder, plan, "linear")
    f, split = made.federation, made.data.test
    if small:
        monkeypatch.setattr(evaluate, "_EXAMPLES", 5)
        monkeypatch.setattr(evaluate, "_chunk", lambda engine, population: 2)
    w, rows = f.broadcast.w, f.population.read(np.arange(N))
    for ids in (np.arange(N), np.array([6, 0, 3])):
        shared = evaluate.shared(f.engine, w, split, ids, aim)
        own = evaluate.personal(f.engine, w, f.population, split, ids, aim)
        for table, models in ((shared, w.expand(N, -1)), (own, rows)):
            found = table.pop("attack_success")
            assert found == pytest.approx(
                succeeds(made, models, split, ids), abs=1e-12, nan_ok=True
            )
            assert len(ids) < N or 0 < np.nanmean(found) < 1
            assert_same(table, plainly(made, models, split, ids))  # the rest is clean


def test_nobody_to_succeed_on(folder):
    made = built(folder, PLANS[1])
    f, split, ids = made.federation, made.data.test, np.arange(N)
    idle = lambda x, y: (x, torch.full_like(y, -1))  # noqa: E731
    table = evaluate.shared(f.engine, f.broadcast.w, split, ids, idle)
    assert np.isnan(table["attack_success"]).all()
    assert np.isfinite(table["accuracy"]).all()
    w = torch.full_like(f.broadcast.w, torch.nan)
    table = evaluate.shared(f.engine, w, split, ids, aim)
    assert np.nansum(table["attack_success"]) == 0  # a diverged model says nothing
    assert (table["accuracy"] == 0).all()
