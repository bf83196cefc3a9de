"""Fine-tuning, and what all that is done after the last round has in common."""

import json
import signal

import numpy as np
import pytest
import torch

import troth
from troth import progress
from troth.data import labels
from troth.runs import results
from troth.runs import train as runs

from ..small import LOOP, PLANS, THREADS, done, draws, gradient, loss, models, rows
from ..small import built as ready_at

SIZES = [30, 3, 16, 24, 9, 12]  # examples of each client
N = len(SIZES)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Three numbers in three classes, a sixth of the labels wrong."""
    random = np.random.default_rng(0)
    owner = np.repeat(np.arange(N), SIZES)
    y = random.integers(0, 3, len(owner))
    x = (np.eye(3)[y] + random.normal(0, 0.7, (len(owner), 3))).astype(np.float32)
    x += random.normal(0, 1, (N, 3))[owner].astype(np.float32)
    wrong = random.random(len(y)) < 1 / 6
    y[wrong] = random.integers(0, 3, int(wrong.sum()))
    file = tmp_path_factory.mktemp("data") / "all.npz"
    np.savez(file, x=x, y=y, owner=owner)
    return file


def tree(path, personalizer, **sections):
    train = {"rounds": 3, "cohort": 4, "steps": 2, "batch": 5, "lr": 0.1}
    whole = {
        "seed": 2,
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "split": [0.6, 0.2, 0.2]},
        "model": "linear",
        "personalizer": personalizer,
        "engine": {"device": "cpu"},
        "train": train | {"precision": "float64"} | sections.pop("train", {}),
    }
    return whole | sections


def built(path, own, plan=LOOP, **sections):
    return ready_at(tree(path, own, **sections), plan)


def way(ready, k, steps, lr=0.1):
    """w* and the models after it, by plain torch."""
    found = [ready.federation.broadcast.w.clone()]
    for held in draws(ready, k, ready.experiment.train.rounds, steps):
        found.append(found[-1] - lr * gradient(ready, found[-1], held))
    return found


def on_validation(ready, k, v):
    return loss(ready, v, rows(ready.data.valid, k), "valid").item()


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.how)
def test_trains_on_from_the_shared_model(path, plan):
    """For some steps, or for epochs, which are each client's own."""
    ready = built(path, {"name": "finetune", "epochs": 3}, plan)
    found = done(ready)
    counts = 3 * -(-ready.data.train.size // 5)
    assert len(set(counts.tolist())) > 2
    for k, steps in enumerate(counts.tolist()):
        assert torch.allclose(found[k], way(ready, k, steps)[-1], 0, 1e-12)
    assert (found - ready.federation.broadcast.w).abs().amax(1).min() > 1e-3


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.how)
@pytest.mark.parametrize("keep", ["best", "accurate"])
def test_the_best_on_validation_is_kept(path, plan, keep):
    """By hand: the first of the best of all; without validation data the last."""
    ready = built(
        path, {"name": "finetune", "steps": 12, "lr": 0.9, "keep": keep}, plan
    )
    found, sizes, places = done(ready), ready.data.valid.size.tolist(), set()
    task, feed = ready.federation.engine.task, ready.federation.engine.feed
    assert 0 in sizes and sum(size > 0 for size in sizes) > 2
    for k, size in enumerate(sizes):
        each, at = way(ready, k, 12, lr=0.9), 12
        if size and keep == "best":
            at = int(np.argmin([on_validation(ready, k, v) for v in each]))
        elif size:
            mine = feed.whole(np.array([k]), ready.data.valid)
            outputs = [task.predict(v, mine.x[0, :size]) for v in each]
            right = [int(labels.right(o, mine.y[0, :size]).sum()) for o in outputs]
            at = int(np.argmax(right))
        places |= {at} if size else set()
        assert torch.allclose(found[k], each[at], 0, 1e-12), (k, at)
    assert len(places) > 1 and places & set(range(1, 12))  # not always the same


def test_the_shared_model_may_be_the_best(path):
    own = {"name": "finetune", "steps": 4, "lr": 500.0, "keep": "best"}
    ready = built(path, own, train={"lr": 0.5, "rounds": 20})
    found, w, expected = done(ready), ready.federation.broadcast.w, []
    for k, size in enumerate(ready.data.valid.size.tolist()):
        each = [on_validation(ready, k, v) for v in way(ready, k, 4, lr=500.0)]
        expected.append(size > 0 and int(np.argmin(each)) == 0)
    assert [torch.equal(v, w) for v in found] == expected and any(expected)


def test_until_then_clients_predict_with_the_shared_model(path):
    ready = ready_at(tree(path, {"name": "finetune", "steps": 9}), rounds=0)
    f = ready.federation
    assert f.population.width == f.engine.task.d + 1 and f.population.start[-1] == 0
    for _ in f.train():
        assert torch.equal(models(ready), f.broadcast.w.expand(N, -1))
        tables = results.evaluate(ready)
        for name, column in tables["personal"].items():
            assert np.allclose(column, tables["shared"][name], 0, 1e-12, True)
    list(f.finish(2))
    tables = results.evaluate(ready)
    assert (tables["personal"]["loss"] != tables["shared"]["loss"]).all()


def test_a_loss_that_is_no_number_is_never_the_best(path):
    own = {"name": "finetune", "steps": 4, "lr": 1e308, "keep": "best"}
    ready = built(path, own)
    found, w = done(ready), ready.federation.broadcast.w
    for v, size in zip(found, ready.data.valid.size.tolist(), strict=True):
        if size:
            assert v.isfinite().all()
    assert any(torch.equal(v, w) for v in found)


def test_the_schedule_is_that_of_the_rounds(path):
    """After a cosine no learning rate would be left."""
    train = {"schedule": "cosine", "rounds": 3}
    ready = built(path, {"name": "finetune", "steps": 3}, train=train)
    found = done(ready)
    for k in range(N):
        assert torch.allclose(found[k], way(ready, k, 3)[-1], 0, 1e-12)


def test_its_own_learning_rate_and_optimizer(path):
    heavy = {"name": "momentum", "beta": 0.5}
    own = {"name": "finetune", "steps": 2, "lr": 0.01, "optimizer": heavy}
    ready = built(path, own)
    found, w = done(ready), ready.federation.broadcast.w
    first, second = way(ready, 0, 2, lr=0.01)[1:]
    rolled = 0.5 * (first - w)  # on, by half of the step before
    assert rolled.abs().max() > 1e-4
    assert torch.allclose(found[0], second + rolled, 0, 1e-12)


def test_augments_change_its_batches_too(path):
    noisy = [{"name": "noise", "sigma": 0.5}]
    found = {}
    for name, own in {"train's": None, "none": [], "its own": noisy}.items():
        personalizer = {"name": "finetune", "steps": 3}
        if own is not None:
            personalizer["augment"] = own
        train = {"augment": [] if name == "its own" else noisy}
        each = {}
        for plan in (LOOP, THREADS):
            ready = built(path, personalizer, plan, train=train)
            each[plan] = done(ready) - ready.federation.broadcast.w
        assert all(torch.allclose(a, each[LOOP], 0, 1e-10) for a in each.values())
        plain = [way(ready, k, 3)[-1] for k in range(N)]
        moved = torch.stack(plain) - ready.federation.broadcast.w
        assert torch.allclose(each[LOOP], moved, 0, 1e-12) == (name == "none")
        found[name] = each[LOOP]
    assert not torch.allclose(found["train's"], found["its own"], 0, 1e-6)


def test_its_steps_are_counted(path):
    counts = {}
    for name in ("none", "finetune", "ewc"):
        own = {"name": name} if name == "none" else {"name": name, "epochs": 2}
        counts[name] = built(path, own).client_steps
    per_epoch = -(-built(path, "none").data.train.size // 5)
    assert counts["none"] == 3 * 4 * 2  # rounds, clients, steps
    assert counts["finetune"] == counts["none"] + 2 * int(per_epoch.sum())
    assert counts["ewc"] == counts["finetune"] + 4 * N
    own = {"name": "finetune", "steps": 6}
    some = built(path, own, availability={"drop": 0.99})
    none = built(path, "none", availability={"drop": 0.99})
    assert some.client_steps == none.client_steps + 6 * N


def test_progress(path, tmp_path):
    told = []
    for how, chunk, steps in (("vmap", 4, [4, 6]), ("threads", 1, [6])):
        told.clear()
        engine = {"how": how, "chunk": chunk, "workers": 2 if how == "threads" else 1}
        whole = tree(path, {"name": "finetune", "steps": 2}, engine=engine)
        with progress.watching(lambda *now: told.append(now)):
            troth.run(whole, out=tmp_path / how)
        said = [now for now in told if now[0] == "personalizing"]
        assert said == [("personalizing", k, N) for k in steps]
        assert told[-1] == ("", 0, 0)


def contents(path):
    found = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
    summary = json.loads(found["summary.json"])
    del summary["seconds"]
    return found | {"summary.json": json.dumps(summary).encode()}


@pytest.mark.parametrize("store", ["host", "disk"])
def test_stopped_in_the_middle_it_goes_on(path, tmp_path, store):
    own = {"name": "finetune", "steps": 4, "keep": "best"}
    engine = {"how": "vmap", "chunk": 2, "store": store}
    whole = tree(path, own, engine=engine, train={"schedule": "cosine"})
    troth.run(whole, out=tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(what, count, total):
        if what == "personalizing" and count == 4:
            raise Killed

    with pytest.raises(Killed), progress.watching(kill):
        troth.run(whole, out=tmp_path / "cut")
    assert not troth.load(tmp_path / "cut").finished
    rounds = []
    troth.resume(tmp_path / "cut", watch=lambda p: rounds.append(p.done))
    assert not [r for r in rounds if r]  # no round is done again
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_a_wish_to_stop_is_heard(path, tmp_path):
    """As Ctrl-C: after the clients at hand, and all rounds are saved."""
    own = {"name": "finetune", "steps": 4}
    whole = tree(path, own, engine={"how": "vmap", "chunk": 2})

    def stop(what, count, total):
        if what == "personalizing":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(runs.Interrupted), progress.watching(stop):
        troth.run(whole, out=tmp_path / "cut")
    troth.resume(tmp_path / "cut")
    troth.run(whole, out=tmp_path / "whole")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_what_a_run_writes_is_of_the_tuned_models(path, tmp_path):
    whole = tree(path, {"name": "finetune", "steps": 9}, engine={"how": "loop"})
    [run] = troth.run(whole, out=tmp_path / "run")
    last = run.rounds[-1]["evaluation"]
    assert last["personal"] == last["shared"]  # before
    assert run.summary["personal"]["loss_mean"] != run.summary["shared"]["loss_mean"]
    assert run.summary["client_steps"] == 3 * 4 * 2 + 9 * N
