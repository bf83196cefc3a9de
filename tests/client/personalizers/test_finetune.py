"""Fine-tuning, and what all that is done after the last round has in common."""

import json
import signal

import numpy as np
import pytest
import torch

import troth
from troth import progress
from troth.data import labels
from troth.runs import train as runs
from troth.types import Refusal

from ..small import (
    LOOP,
    PLANS,
    THREADS,
    built,
    done,
    draws,
    gradient,
    loss,
    rows,
)

N, BATCH = 6, 4  # clients of `tree`, and examples of a batch


def tuned(tree, options, **sections):
    """An experiment in which clients fine-tune."""
    return tree("linear", {"name": "finetune"} | options, **sections)


def trained(tree, options, plan=LOOP, **sections):
    """A federation, all its clients' models at the end, the last shared one."""
    ready = built(tuned(tree, options, **sections), plan)
    return ready, done(ready), ready.federation.broadcast.w


def way(ready, k, steps, lr=0.1):
    """w* and the models after it, by plain torch."""
    found = [ready.federation.broadcast.w.clone()]
    for held in draws(ready, k, ready.experiment.train.rounds, steps):
        found.append(found[-1] - lr * gradient(ready, found[-1], held))
    return found


def on_validation(ready, k, v):
    return loss(ready, v, rows(ready.data.valid, k), "valid").item()


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.how)
def test_trains_on_from_the_shared_model(tree, plan):
    """For epochs, each client's own; after a cosine no learning rate would be left."""
    train = {"schedule": "cosine"}
    ready, found, w = trained(tree, {"epochs": 3}, plan, train=train)
    counts = 3 * -(-ready.data.train.size // BATCH)
    assert len(set(counts.tolist())) > 2
    for k, steps in enumerate(counts.tolist()):
        assert torch.allclose(found[k], way(ready, k, steps)[-1], 0, 1e-12)
    assert (found - w).abs().amax(1).min() > 1e-3


def test_steps_by_examples(tree):
    """As many as the authors take; fewer than whole epochs have."""
    own = {"epochs": 3, "count": "examples"}
    ready, found, _ = trained(tree, own)
    sizes, fewer = ready.data.train.size.tolist(), 0
    for k, size in enumerate(sizes):
        steps = max(int(3 * size / BATCH), 3)
        fewer += steps < 3 * -(-size // BATCH)
        assert torch.allclose(found[k], way(ready, k, steps)[-1], 0, 1e-12)
    assert fewer > 1
    with pytest.raises(Refusal, match="personalizer.epochs is not set"):
        built(tuned(tree, {"count": "examples"}))
    with pytest.raises(Refusal, match="'local' trains in the rounds"):
        built(tuned(tree, {"name": "local", **own}))


@pytest.mark.parametrize("select", ["epoch", "step"])
@pytest.mark.parametrize("keep", ["best", "accurate"])
def test_the_best_on_validation_is_kept(tree, keep, select):
    """By hand: of equal ones the latest, never w*; without validation data the last."""
    options = {"steps": 12, "lr": 0.9, "keep": keep, "select": select}
    ready, found, _ = trained(tree, options)
    task, feed = ready.federation.engine.task, ready.federation.engine.feed
    sizes, places = ready.data.valid.size.tolist(), set()
    assert 0 in sizes and sum(size > 0 for size in sizes) > 2
    assert {2, 4} <= {*feed.per_epoch.tolist()}
    for k, size in enumerate(sizes):
        each, at = way(ready, k, 12, lr=0.9), 12
        mine = feed.whole(np.array([k]), ready.data.valid)
        order = []
        for t, v in enumerate(each):
            value = on_validation(ready, k, v) if size else 0.0
            right = labels.right(task.predict(v, mine.x[0, :size]), mine.y[0, :size])
            first = -int(right.sum()) if keep == "accurate" else value
            candidate = t % int(feed.per_epoch[k]) == 0 or select == "step"
            order += [(first, value if t else np.inf, -t)] * (candidate or t == 12)
        at = -min(order)[2] if size else 12
        places |= {at} if size else set()
        assert torch.allclose(found[k], each[at], 0, 1e-12), (k, at)
    assert len(places) > 1 and places & set(range(1, 12))  # not always the same


def test_the_shared_model_may_be_the_best(tree):
    """A loss that is not finite never is."""
    ready, found, w = trained(tree, {"steps": 4, "lr": 1e308, "keep": "best"})
    assert found[ready.data.valid.size > 0].isfinite().all()
    assert any(torch.equal(v, w) for v in found)


def test_its_own_learning_rate_and_optimizer(tree):
    heavy = {"name": "momentum", "beta": 0.5}
    options = {"steps": 2, "lr": 0.01, "optimizer": heavy}
    ready, found, w = trained(tree, options)
    first, second = way(ready, 0, 2, lr=0.01)[1:]
    rolled = 0.5 * (first - w)  # on, by half of the step before
    assert rolled.abs().max() > 1e-4
    assert torch.allclose(found[0], second + rolled, 0, 1e-12)


def test_augments_change_its_batches_too(tree):
    noisy, found = [{"name": "noise", "sigma": 0.5}], []
    none = {"augment": []}
    for mine, train in (({}, noisy), ({"augment": noisy}, []), (none, noisy)):
        wanted, moved = {"steps": 3} | mine, []
        for plan in (LOOP, THREADS):
            ready, v, w = trained(tree, wanted, plan, train={"augment": train})
            moved.append(v - w)
        assert torch.allclose(*moved, 0, 1e-10)
        plain = torch.stack([way(ready, k, 3)[-1] for k in range(N)]) - w
        assert torch.allclose(moved[0], plain, 0, 1e-12) == (mine == none)
        found.append(moved[0])
    assert not torch.allclose(*found[:2], 0, 1e-6)


def test_its_steps_are_counted(tree):
    def counted(name, **sections):
        own = {} if name == "none" else {"epochs": 2}
        return built(tuned(tree, {"name": name} | own, **sections), rounds=0)

    none = counted("none")
    epochs = 2 * int((-(-none.data.train.size // BATCH)).sum())
    assert none.client_steps == 3 * 4 * 5  # rounds, clients, steps
    assert counted("finetune").client_steps == none.client_steps + epochs
    assert counted("ewc").client_steps == none.client_steps + epochs + 4 * N
    some, none = (
        counted(name, availability={"drop": 0.99}) for name in ("finetune", "none")
    )
    assert some.client_steps == none.client_steps + epochs


def contents(path):
    found = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
    summary = json.loads(found["summary.json"])
    del summary["seconds"], summary["setup_seconds"]
    return found | {"summary.json": json.dumps(summary).encode()}


def stop(what, count, total):
    if what == "personalizing" and count == 4:
        raise InterruptedError


def interrupt(what, count, total):
    if what == "personalizing":
        signal.raise_signal(signal.SIGINT)


@pytest.mark.slow("trains and stops at many moments")
@pytest.mark.parametrize(
    ("store", "watch", "error"),
    [
        ("host", stop, InterruptedError),
        ("disk", stop, InterruptedError),
        ("host", interrupt, runs.Interrupted),  # Ctrl-C: after the clients at hand
    ],
)
def test_stopped_in_the_middle_it_goes_on(tree, tmp_path, store, watch, error):
    engine = {"how": "vmap", "chunk": 2, "store": store}
    options, train = {"steps": 4, "keep": "best"}, {"schedule": "cosine"}
    wanted = tuned(tree, options, engine=engine, train=train)
    troth.run(wanted, out=tmp_path / "whole")
    with pytest.raises(error), progress.watching(watch):
        troth.run(wanted, out=tmp_path / "cut")
    assert not troth.load(tmp_path / "cut").finished
    rounds = []
    troth.resume(tmp_path / "cut", watch=lambda p: rounds.append(p.done))
    assert not any(rounds)  # no round is done again
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_what_a_run_writes_is_of_the_tuned_models(tree, tmp_path):
    wanted = tuned(tree, {"steps": 9}, engine={"how": "loop"})
    [run] = troth.run(wanted, out=tmp_path / "run")
    last = run.rounds[-1]["evaluation"]
    assert last["personal"] == last["shared"]  # before
    assert run.summary["personal"]["loss_mean"] != run.summary["shared"]["loss_mean"]
    assert run.summary["client_steps"] == 3 * 4 * 5 + 9 * N
