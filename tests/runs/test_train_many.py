"""Runs that step as one matrix give what each gives by itself."""

import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import troth
from troth import devices, files
from troth.build import build
from troth.config import reader
from troth.engine import vmap
from troth.engine.batches import Feed
from troth.engine.local_training import Plan
from troth.federation.rounds import Federation
from troth.federation.stacked import Stack
from troth.runs import train, train_many
from troth.runs.load import Run
from troth.types import Refusal

BASE = {
    "data": "digits",
    "partition": {"name": "classes", "clients": 8, "per_client": 5},
    "model": {"name": "mlp", "widths": [8]},
    "train": {"rounds": 5, "cohort": 5, "steps": 3, "batch": 8, "lr": 0.1},
    "evaluate": {"every": 2},
    "engine": {"how": "vmap", "chunk": 5, "device": "cpu"},
}
COLUMNS = {
    "clean": {},
    "A1": {"adversary": {"clients": [0, 3]}},
    "A2": {"adversary": {"clients": [0, 3, 5]}, "attack": "random_update"},
    "A3": {"adversary": {"clients": [1]}, "attack": "model_replacement"},
    "fair": {"adversary": {"clients": [2]}, "aggregator": {"name": "term", "t": 1.0}},
    "clipped": {"adversary": {"clients": [2]}, "filter": ["clip"]},
}
COLUMNS["median"] = COLUMNS["A3"] | {"aggregator": {"name": "median", "strict": False}}
AUTO = {"personalizer": {"name": "ditto", "lam": "auto", "choose": "code"}}
METHODS = {
    "none": {},
    "ditto": {"personalizer": {"name": "ditto", "lam": 1.0}},
    "auto": AUTO,
    "finetune": {"personalizer": {"name": "finetune", "epochs": 1}},
    "scaffold": {"solver": "scaffold"},
}
VMAP = Plan("vmap", 5)
GRID = {**BASE, "grid": {"seed": [0, 1], "adversary.fraction": [0.0, 0.4]}}
LONG = pytest.mark.slow("every method trained together and one by one")
MAY = "may differ only in seed, adversary, attack"
LATE = {"evaluate": {"newcomers": 0.25}}


@pytest.fixture
def two_stacks(monkeypatch):
    halves = lambda all_: [Stack(all_[:2]), Stack(all_[2:])]  # noqa: E731
    monkeypatch.setattr(train_many, "_stacks", halves)


def shared(path):
    """The shared model of a run, flat."""
    return torch.cat([t.flatten() for t in files.load(path / files.SHARED)[0].values()])


def experiments(method):
    """All columns of the plain method; of the others, which trace longer, three."""
    columns = COLUMNS if method == "none" else ("clean", "A2", "fair")
    trees = ({**BASE, **METHODS[method], **COLUMNS[name]} for name in columns)
    return [reader.from_dict(tree) for tree in trees]


@pytest.mark.parametrize(
    "method", ["ditto", *(pytest.param(m, marks=LONG) for m in METHODS if m != "ditto")]
)
def test_together_is_one_after_another(method, tmp_path):
    """Shared and own models within 1e-5 after five rounds, and what was written.

    The clean column is compared where stacks take turns, and as graphs are replayed.
    """
    check_the_same(experiments(method)[1:], tmp_path)


@LONG
@pytest.mark.parametrize(
    "change",
    [
        METHODS["auto"],
        METHODS["finetune"],
        METHODS["scaffold"],
        {"model": {"name": "mlp", "widths": [8], "normalize": "pixel"}},
        {"train": {**BASE["train"], "steps": 0, "epochs": 1, "batch": 64}},
        {"availability": {"drop": 0.7}},  # rounds in which nobody answers
    ],
    ids=str,
)
def test_seeds_are_trained_together(change, tmp_path):
    """Other clients are asked, with other batches, shapes and numbers of steps."""
    trees = [{**BASE, **change, "seed": s} for s in (0, 1, 2)]
    trees += [{**BASE, **change, **COLUMNS["A3"], "seed": s} for s in (1, 2)]
    every = [reader.from_dict(tree) for tree in trees]
    assert len({train_many.kind(e) for e in every}) == 1
    check_the_same(every, tmp_path)


@pytest.mark.slow("three models trained first, and three runs twice")
def test_each_begins_with_its_own_weights(tmp_path):
    """A model that was trained elsewhere, another one in every seed."""
    every = []
    for seed in range(3):
        first = tmp_path / f"first{seed}"
        train.train(reader.from_dict({**BASE, "seed": seed}), first, plan=VMAP)
        changes = {
            "seed": seed,
            "model": {**BASE["model"], "weights": str(first / files.SHARED)},
            "train": {**BASE["train"], "lr": 0.0, "rounds": 1},
            "personalizer": {"name": "finetune", "steps": 3, "lr": 0.1},
        }
        every.append(reader.from_dict(BASE | changes))
    check_the_same(every, tmp_path)


def check_the_same(every, tmp_path, between=lambda: None):
    """Trained together, they leave what each leaves by itself (before `between`)."""
    alone = [tmp_path / f"alone{k}" for k in range(len(every))]
    both = [tmp_path / f"both{k}" for k in range(len(every))]
    for e, path in zip(every, alone, strict=True):
        train.train(e, path, plan=VMAP)
    between()
    train_many.train(every, both, plan=VMAP)
    for one, other in zip(alone, both, strict=True):
        a, b = Run(one), Run(other)
        for name in (files.SHARED, files.PERSONAL):
            assert (one / name).exists() == (other / name).exists()
            if (one / name).exists():
                left, right = (files.load(path / name)[0] for path in (one, other))
                torch.testing.assert_close(right, left, rtol=0, atol=1e-5)
        np.testing.assert_allclose(b.clients["loss"], a.clients["loss"], atol=1e-4)
        for key in ("cohort", "absent"):
            assert [r[key] for r in a.rounds] == [r[key] for r in b.rounds]
        assert a.summary.keys() == b.summary.keys()
        prints = [run.experiment.resolved["fingerprint"] for run in (a, b)]
        assert prints[0] == prints[1]
    first, *rest = (shared(path) for path in alone)
    apart = [float((w - first).abs().max()) for w in rest if len(w) == len(first)]
    assert min(apart) > 1e-3  # the columns do differ, so that a mix-up would show


@pytest.mark.slow("trains several stacks")
@pytest.mark.parametrize("method", ["none", pytest.param("finetune", marks=LONG)])
def test_stacks_by_turns(method, tmp_path, monkeypatch, two_stacks):
    """As on a GPU: while one steps, rounds of the other end."""
    order = []
    for name in ("launch", "land"):
        real = getattr(Stack, name)

        def seen(self, name=name, real=real):
            order.append((name, len(self.federations)))
            return real(self)

        monkeypatch.setattr(Stack, name, seen)
    every = experiments(method)
    check_the_same(every, tmp_path)
    rest = len(every) - 2
    begun = [("launch", 2), ("launch", rest)]
    ahead = [("land", 2), ("launch", 2), ("land", rest), ("launch", rest)]
    ended = [("land", 2), ("land", rest)]  # a table is due: nothing is begun before
    assert order == [*begun, *ahead, *ended, *begun, *ahead, *ended, *begun, *ended]


@LONG
@pytest.mark.parametrize("method", METHODS)
def test_as_graphs_are_replayed(method, record, tmp_path, monkeypatch, two_stacks):
    """On a GPU results lie in memory that the next replay writes over."""

    def captured():
        monkeypatch.setattr(vmap, "captures", lambda tensor: True)
        monkeypatch.setattr(vmap, "_cuda_graph", record)

    check_the_same(experiments(method), tmp_path, captured)


@pytest.mark.parametrize(
    ("device", "sizes"),
    [("cpu", [10])] + [("cuda", s) for s in ([5, 5], [3, 2], [2, 1], [2], [1])],
)
def test_two_stacks_on_a_gpu(monkeypatch, device, sizes):
    monkeypatch.setattr("troth.federation.stacked.Stack", list)
    engine = SimpleNamespace(device=SimpleNamespace(type=device))
    found = train_many._stacks([SimpleNamespace(engine=engine)] * sum(sizes))
    assert [len(stack) for stack in found] == sizes


def test_the_same_draws_are_drawn_once(monkeypatch):
    calls, real = [], Feed.draw

    def draw(self, *given):
        calls.append(self.seed)
        return real(self, *given)

    monkeypatch.setattr(Feed, "draw", draw)
    trees = [BASE, {**BASE, **COLUMNS["A1"]}, {**BASE, "seed": 1}]
    every = [build(reader.from_dict(t), plan=VMAP).federation for t in trees]
    calls.clear()
    Stack(every).launch()
    assert calls == [0, 1]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({}, {"model": {"name": "mlp", "widths": [9]}}, MAY),
        ({}, {"personalizer": {"name": "ditto", "lam": 0.5}}, MAY),
        ({}, {"train": {**BASE["train"], "rounds": 6}}, MAY),
        ({}, {"partition": {**BASE["partition"], "valid": 0.1, "split": "given"}}, MAY),
        (LATE, LATE, "train them one by one"),
    ],
)
def test_what_does_not_go_together(one, other, words, tmp_path):
    both = [reader.from_dict({**BASE, **change}) for change in (one, other)]
    with pytest.raises(Refusal, match=words):
        train_many.train(both, [tmp_path / "a", tmp_path / "b"], plan=VMAP)
    assert not list(tmp_path.iterdir())


def test_what_memory_does_not_hold_is_trained_in_parts(tmp_path, monkeypatch):
    built = build(reader.from_dict({**BASE, **METHODS["ditto"]}), plan=VMAP)
    one = built.need.rows + 6 * 5 * built.federation.engine.task.d * 4 + 1
    assert train_many.fit(built) > 100
    for room, many in ((2 * one * 10 // 7 + 2, 2), (0, 1)):
        monkeypatch.setattr(devices, "free", lambda device, room=room: room)
        assert train_many.fit(built) == many
    paths, labels = [tmp_path / "a", tmp_path / "b"], []
    watch = lambda p: labels.append(p.label)  # noqa: E731
    train_many.train(experiments("none")[:2], paths, plan=VMAP, watch=watch)
    assert {*labels} == {"1 runs together"} and all(
        Run(path).finished for path in paths
    )


def test_a_grid_is_one_matrix_where_told(tmp_path):
    """On a CPU it is trained one by one unless told."""
    names = []
    watch = lambda p: names.append(p.label)  # noqa: E731
    both = troth.run(GRID, out=tmp_path / "both", apart=False, watch=watch)
    assert {*names} == {"4 runs together"}
    names.clear()
    alone = troth.run(GRID, out=tmp_path / "alone", watch=watch)
    assert names and not any("together" in name for name in names)
    for one, other in zip(both, alone, strict=True):
        assert one.path.name == other.path.name
        assert one.finished and not (one.path / files.CHECKPOINT).exists()
        torch.testing.assert_close(
            shared(one.path), shared(other.path), rtol=0, atol=1e-5
        )


@pytest.mark.slow("a grid of four, stopped, resumed and trained again")
@pytest.mark.parametrize(("method", "every"), [("ditto", 0), ("finetune", 2)])
def test_what_is_killed_together_goes_on_by_itself(method, every, tmp_path):
    """From the last checkpoint, or from the beginning where there is none."""
    tree = {**GRID, **METHODS[method], "checkpoint": {"every": every}}

    def kill(p):
        if p.done == 3:
            raise KeyboardInterrupt  # as a second Ctrl-C: nothing is saved

    root = tmp_path / "killed"
    with pytest.raises(KeyboardInterrupt):
        troth.run(tree, out=root, apart=False, watch=kill)
    left = [(p / files.CHECKPOINT).exists() for p in sorted(root.glob("seed*"))]
    assert left == [every == 2] * 4
    again, whole = (
        troth.resume(root),
        troth.run(tree, out=tmp_path / "whole", apart=True),
    )
    for one, other in zip(again, whole, strict=True):
        torch.testing.assert_close(
            shared(one.path), shared(other.path), rtol=0, atol=1e-5
        )
        assert len(one.rounds) == 5


@pytest.mark.slow("trains several grids")
@pytest.mark.parametrize(
    ("where", "calls"),  # the second launch is that of a round ahead
    [("launch", 2), *(pytest.param(w, 1, marks=LONG) for w in ("launch", "land"))]
    + [("receive", 1), *(pytest.param(w, 2, marks=LONG) for w in ("receive", "land"))],
)
def test_memory_that_runs_out_leaves_each_to_itself(
    where, calls, tmp_path, monkeypatch
):
    whose = Federation if where == "receive" else Stack
    real, seen = getattr(whose, where), []

    def full(self, *given):
        seen.append(1)
        if len(seen) < calls or (where == "receive" and len(seen) > calls):
            return real(self, *given)  # alone they receive, too
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(whose, where, full)
    tree = {**BASE, "grid": {"seed": [0, 1]}}
    found = troth.run(tree, out=tmp_path / "g", apart=False)
    assert len(seen) >= calls and all(run.finished for run in found)


def launched(monkeypatch, last):
    """Stacks seen at launches; memory runs out at the last one."""
    real, seen = Stack.launch, []

    def launch(self):
        seen.append(weakref.ref(self))
        if len(seen) == last:
            raise torch.OutOfMemoryError("CUDA out of memory")
        real(self)

    monkeypatch.setattr(Stack, "launch", launch)
    return seen


def test_a_round_is_kept_where_the_next_cannot_begin(tmp_path, monkeypatch):
    launched(monkeypatch, 4)  # round 4 is begun ahead of what is said of round 3
    paths = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(torch.OutOfMemoryError):
        train_many.train(experiments("none")[:2], paths, plan=VMAP)
    assert all(len(Run(path).rounds) == 3 for path in paths)
    again = [run for path in paths for run in troth.resume(path)]
    assert len(again) == 2 and all(run.finished for run in again)


def test_memory_that_ran_out_is_free_again(tmp_path, monkeypatch):
    every, seen = experiments("none")[:2], launched(monkeypatch, 3)
    assert not train_many.held(every, [tmp_path / "a", tmp_path / "b"], plan=VMAP)
    assert [stack() for stack in seen] == [None] * 3
