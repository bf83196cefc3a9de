"""Runs that step as one matrix give what each gives by itself."""

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import troth
from troth import devices, files
from troth.build import build
from troth.config import reader
from troth.engine import vmap
from troth.engine.batches import Feed
from troth.engine.engine import Plan
from troth.federation.rounds import Federation
from troth.federation.stacked import Stack
from troth.runs import train, train_many
from troth.runs.load import Run
from troth.types import Refusal

BASE: dict[str, Any] = {
    "data": "digits",
    "partition": {
        "name": "classes",
        "clients": 8,
        "per_client": 5,
        "split": [0.72, 0.08, 0.2],
    },
    "model": {"name": "mlp", "widths": [8]},
    "train": {"rounds": 5, "cohort": 5, "steps": 3, "batch": 8, "lr": 0.1},
    "evaluate": {"every": 2},
    "engine": {"how": "vmap", "chunk": 5, "device": "cpu"},
}
COLUMNS: dict[str, dict[str, Any]] = {
    "clean": {},
    "A1": {"adversary": {"clients": [0, 3]}},
    "A2": {"adversary": {"clients": [0, 3, 5]}, "attack": "random_update"},
    "A3": {"adversary": {"clients": [1]}, "attack": "model_replacement"},
    "median": {
        "adversary": {"clients": [1]},
        "attack": "model_replacement",
        "aggregator": {"name": "median", "strict": False},
    },
    "fair": {"adversary": {"clients": [2]}, "aggregator": {"name": "term", "t": 1.0}},
    "clipped": {"adversary": {"clients": [2]}, "filter": ["clip"]},
}
METHODS: dict[str, dict[str, Any]] = {
    "none": {},
    "ditto": {"personalizer": {"name": "ditto", "lam": 1.0}},
    "auto": {"personalizer": {"name": "ditto", "lam": "auto", "choose": "code"}},
    "finetune": {"personalizer": {"name": "finetune", "epochs": 1}},
    "scaffold": {"solver": "scaffold"},
}
VMAP = Plan("vmap", 5)
LONG = pytest.mark.slow("every method trained together and one by one")
MAY = "may differ only in seed, adversary, attack"
LATE = {"evaluate": {"newcomers": 0.25}}


def experiments(method):
    """All columns of the plain method; of the others, which trace longer, three."""
    columns = COLUMNS if method == "none" else ("clean", "A2", "fair")
    trees = ({**BASE, **METHODS[method], **COLUMNS[name]} for name in columns)
    return [reader.from_dict(tree) for tree in trees]


@pytest.mark.parametrize(
    "method", ["ditto", *(pytest.param(m, marks=LONG) for m in METHODS if m != "ditto")]
)
def test_together_is_one_after_another(method, tmp_path):
    """Shared and own models within 1e-5 after five rounds, and what was written."""
    check_the_same(experiments(method), tmp_path)


@LONG
@pytest.mark.parametrize(
    "change",
    [
        {"personalizer": {"name": "ditto", "lam": "auto", "choose": "code"}},
        {"personalizer": {"name": "finetune", "epochs": 1}},
        {"solver": "scaffold"},
        {"model": {"name": "mlp", "widths": [8], "normalize": "pixel"}},
        {"train": {**BASE["train"], "steps": 0, "epochs": 1, "batch": 64}},
        {"availability": {"drop": 0.7}},  # rounds in which nobody answers
    ],
    ids=str,
)
def test_seeds_are_trained_together(change, tmp_path):
    """Other clients are asked, with other batches, shapes and numbers of steps."""
    hostile = COLUMNS["A3"]
    trees = [{**BASE, **change, "seed": s} for s in (0, 1, 2)]
    trees += [{**BASE, **change, **hostile, "seed": s} for s in (1, 2)]
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
        start = {**BASE["model"], "weights": str(first / files.SHARED)}
        still = {**BASE["train"], "lr": 0.0, "rounds": 1}
        own = {"name": "finetune", "steps": 3, "lr": 0.1}
        tree = {**BASE, "model": start, "train": still, "personalizer": own}
        every.append(reader.from_dict({**tree, "seed": seed}))
    check_the_same(every, tmp_path)


def check_the_same(every, tmp_path, between=lambda: None):
    """Trained together, they leave what each leaves by itself (before `between`)."""
    alone = [tmp_path / f"alone{k}" for k in range(len(every))]
    both = [tmp_path / f"both{k}" for k in range(len(every))]
    for e, path in zip(every, alone, strict=True):
        train.train(e, path, plan=VMAP)
    between()
    train_many.train(every, both, plan=VMAP)
    weights = []
    for one, other in zip(alone, both, strict=True):
        a, b = Run(one), Run(other)
        for name in (files.SHARED, files.PERSONAL):
            if not (one / name).exists():
                assert not (other / name).exists()
                continue
            left, right = files.load(one / name)[0], files.load(other / name)[0]
            for key in left:
                torch.testing.assert_close(right[key], left[key], rtol=0, atol=1e-5)
            weights.append(torch.cat([t.flatten().double() for t in left.values()]))
        np.testing.assert_allclose(b.clients["loss"], a.clients["loss"], atol=1e-4)
        for key in ("cohort", "absent"):
            assert [r[key] for r in a.rounds] == [r[key] for r in b.rounds]
        assert {**a.summary, "seconds": 0}.keys() == {**b.summary, "seconds": 0}.keys()
        assert (
            a.experiment.resolved["fingerprint"]
            == (b.experiment.resolved["fingerprint"])
        )
    shared = [w for w in weights if len(w) == len(weights[0])]
    apart = [float((w - shared[0]).abs().max()) for w in shared[1:]]
    assert min(apart) > 1e-3  # the columns do differ, so that a mix-up would show


def test_a_stack_of_one_is_the_federation():
    (e,) = experiments("ditto")[1:2]
    one, other = (build(e, plan=VMAP).federation for _ in range(2))
    stack = Stack([other])
    for _ in range(3):
        one.step()
        stack.launch()
        stack.land()
    torch.testing.assert_close(one.broadcast.w, other.broadcast.w, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["none", pytest.param("finetune", marks=LONG)])
def test_stacks_by_turns(method, tmp_path, monkeypatch):
    """As on a GPU: while one steps, rounds of the other end."""
    order: list[tuple[str, int]] = []
    for name in ("launch", "land"):
        real = getattr(Stack, name)

        def seen(self, name=name, real=real):
            order.append((name, len(self.federations)))
            return real(self)

        monkeypatch.setattr(Stack, name, seen)
    monkeypatch.setattr(
        train_many, "_stacks", lambda all_: [Stack(all_[:2]), Stack(all_[2:])]
    )
    every = experiments(method)
    check_the_same(every, tmp_path)
    rest = len(every) - 2
    begun = [("launch", 2), ("launch", rest)]
    ahead = [("land", 2), ("launch", 2), ("land", rest), ("launch", rest)]
    ended = [("land", 2), ("land", rest)]  # a table is due: nothing is begun before
    assert order == [*begun, *ahead, *ended, *begun, *ahead, *ended, *begun, *ended]


@LONG
@pytest.mark.parametrize("method", METHODS)
def test_as_graphs_are_replayed(method, record, tmp_path, monkeypatch):
    """On a GPU results lie in memory that the next replay writes over."""

    def captured():
        monkeypatch.setattr(vmap, "captures", lambda tensor: True)
        monkeypatch.setattr(vmap, "_cuda_graph", record)

    monkeypatch.setattr(
        train_many, "_stacks", lambda all_: [Stack(all_[:2]), Stack(all_[2:])]
    )
    check_the_same(experiments(method), tmp_path, captured)


def test_two_stacks_on_a_gpu(monkeypatch):
    monkeypatch.setattr(train_many, "Stack", list)
    cpu, cuda = (SimpleNamespace(type=name) for name in ("cpu", "cuda"))
    for device, n, sizes in (
        (cpu, 10, [10]),
        (cuda, 10, [5, 5]),
        (cuda, 5, [3, 2]),
        (cuda, 3, [2, 1]),
        (cuda, 2, [2]),
        (cuda, 1, [1]),
    ):
        federation = SimpleNamespace(engine=SimpleNamespace(device=device))
        found = train_many._stacks([federation] * n)  # type: ignore[list-item]
        assert [len(stack) for stack in found] == sizes  # type: ignore[arg-type]


def test_the_same_draws_are_drawn_once(monkeypatch):
    calls: list[int] = []
    real = Feed.draw

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
    e = reader.from_dict({**BASE, **METHODS["ditto"]})
    built = build(e, plan=VMAP)
    d = built.federation.engine.task.d
    one = built.need.rows + 6 * 5 * d * 4 + 1
    assert train_many.fit(built) > 100
    monkeypatch.setattr(devices, "free", lambda device: 2 * one * 10 // 7 + 2)
    assert train_many.fit(built) == 2
    monkeypatch.setattr(devices, "free", lambda device: 0)
    assert train_many.fit(built) == 1
    every, told = [*experiments("none")[:3]], list[str]()
    paths = [tmp_path / str(k) for k in range(3)]
    train_many.train(every, paths, plan=VMAP, watch=lambda p: told.append(p.label))
    assert {*told} == {"1 runs together"} and all(Run(path).finished for path in paths)


GRID = {**BASE, "grid": {"seed": [0, 1], "adversary.fraction": [0.0, 0.4]}}


def shared(runs_):
    """The shared models of some runs, flat."""
    found = [files.load(run.path / files.SHARED)[0] for run in runs_]
    return [torch.cat([t.flatten() for t in each.values()]) for each in found]


def test_a_grid_is_one_matrix_where_told(tmp_path):
    names: list[str] = []
    watch = lambda p: names.append(p.label)  # noqa: E731
    both = troth.run(GRID, out=tmp_path / "both", apart=False, watch=watch)
    assert set(names) == {"4 runs together"}
    alone = troth.run(GRID, out=tmp_path / "alone", apart=True)
    assert [r.path.name for r in both] == [r.path.name for r in alone]
    for one, other in zip(shared(both), shared(alone), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    for run in both:
        assert run.finished and not (run.path / files.CHECKPOINT).exists()


def test_on_a_cpu_a_grid_is_trained_one_by_one(tmp_path):
    names: list[str] = []
    troth.run(GRID, out=tmp_path / "g", watch=lambda p: names.append(p.label))
    assert not any("together" in name for name in names)


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
    again = troth.resume(root)
    whole = troth.run(tree, out=tmp_path / "whole", apart=True)
    for one, other in zip(shared(again), shared(whole), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert [len(r.rounds) for r in again] == [5] * 4


@pytest.mark.parametrize(
    ("where", "calls"),  # the second launch is that of a round ahead
    [("launch", 2), *(pytest.param(w, 1, marks=LONG) for w in ("launch", "land"))]
    + [("receive", 1), *(pytest.param(w, 2, marks=LONG) for w in ("receive", "land"))],
)
def test_memory_that_runs_out_leaves_each_to_itself(
    where, calls, tmp_path, monkeypatch
):
    whose: Any = Federation if where == "receive" else Stack
    real, seen = getattr(whose, where), list[int]()

    def full(self, *given):
        seen.append(1)
        if len(seen) < calls or (where == "receive" and len(seen) > calls):
            return real(self, *given)  # alone they receive, too
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(whose, where, full)
    found = troth.run(GRID, out=tmp_path / "g", apart=False)
    assert len(seen) >= calls and all(run.finished for run in found)


def test_a_round_is_kept_where_the_next_cannot_begin(tmp_path, monkeypatch):
    every, real, begun = experiments("none")[:2], Stack.launch, list[int]()

    def launch(self):
        begun.append(1)
        if len(begun) == 4:  # round 4 is begun ahead of what is said of round 3
            raise torch.OutOfMemoryError("CUDA out of memory")
        real(self)

    monkeypatch.setattr(Stack, "launch", launch)
    paths = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(torch.OutOfMemoryError):
        train_many.train(every, paths, plan=VMAP)
    assert all(len(Run(path).rounds) == 3 for path in paths)
    again = [run for path in paths for run in troth.resume(path)]
    assert len(again) == 2 and all(run.finished for run in again)


def test_memory_that_ran_out_is_free_again(tmp_path, monkeypatch):
    every, real, seen = experiments("none")[:2], Stack.launch, list[Any]()

    def launch(self):
        seen.append(weakref.ref(self))
        if len(seen) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        real(self)

    monkeypatch.setattr(Stack, "launch", launch)
    assert not train_many.held(every, [tmp_path / "a", tmp_path / "b"], plan=VMAP)
    assert [stack() for stack in seen] == [None] * 3
    monkeypatch.setattr(Stack, "launch", real)
    assert train_many.held(every, [tmp_path / "c", tmp_path / "d"], plan=VMAP)
