import itertools
import os

import numpy as np
import pytest
import torch

from troth import build, devices
from troth.config import reader
from troth.engine import plan as plans
from troth.engine.local_training import Engine, Plan
from troth.types import Refusal

HOWS = {"loop", "vmap", "compiled", "threads"}
LOOP = Plan("loop", 1)


@pytest.fixture
def experiment(tree):
    return reader.from_dict(tree)


def built(experiment, plan=LOOP):
    return build.build(experiment, plan=plan)


def choose(made, steps=1.0, **wish):
    f = made.federation
    cohort = f.sample(0)
    return plans.choose(f.engine, f.broadcast, f.population, cohort, steps, **wish)


def trained(made):
    for _ in made.federation.train():
        pass
    f = made.federation
    return f.broadcast.w, f.population.read(np.arange(f.population.n))


def cores(monkeypatch, number):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(number)))


def test_what_is_given_is_kept_and_not_measured(experiment, monkeypatch):
    monkeypatch.setattr(plans, "_time", None)
    made = built(experiment)
    for wish, expected in (
        ({"how": "loop"}, Plan("loop", 1)),
        ({"how": "loop", "chunk": 5, "workers": 2}, Plan("loop", 1)),
        ({"how": "threads", "workers": 3}, Plan("threads", 1, 3)),
        ({"how": "threads", "workers": 30}, Plan("threads", 1, 7)),
        ({"how": "vmap", "chunk": 2}, Plan("vmap", 2)),
        ({"how": "vmap", "chunk": 100}, Plan("vmap", 7)),
        ({"how": "vmap", "chunk": 2, "workers": 2}, Plan("vmap", 2, 2)),
        ({"how": "compiled", "chunk": 3}, Plan("compiled", 3)),
    ):
        assert choose(made, **wish) == expected


def test_candidates_are_valid(experiment, monkeypatch):
    engine = built(experiment).federation.engine
    wishes = ("auto", *HOWS), (0, 1, 3, 50), (0, 1, 4)  # how, chunk, workers
    for n, count in itertools.product((1, 2, 3, 7, 100), (1, 2, 16)):
        cores(monkeypatch, count)
        for how, chunk, workers in itertools.product(*wishes):
            found = list(plans._candidates(engine, n, how, chunk, workers))
            assert found and len(set(found)) == len(found)
            allowed = HOWS - {"loop"} if how == "auto" else {how}
            for plan in found:
                assert plan.how in allowed and plan.workers >= 1
                assert 1 <= plan.chunk <= n or plan.chunk == chunk
                if plan.apart:
                    assert plan.chunk == 1 and plan.workers <= n
        first, *_, last = plans._candidates(engine, n, "auto", 0, 0)
        assert (first.how, first.chunk, last.how) == ("vmap", n, "threads")


def test_candidates_fit_into_what_is_free(experiment, monkeypatch):
    engine = built(experiment).federation.engine
    one = (8 * engine.task.d + 2 * engine.packing.width) * 8
    for rows, most in ((0, 1), (1, 1), (9, 4), (10**9, 100)):
        monkeypatch.setattr(devices, "free", lambda device, rows=rows: rows * (one + 1))
        found = plans._candidates(engine, 100, "vmap", 0, 0)
        assert max(plan.chunk for plan in found) == most


def timed(monkeypatch, seconds):
    """Measure by a table instead of a clock."""
    asked = []
    clock = lambda engine, plan, *rest: asked.append(plan) or float(seconds(plan))  # noqa: E731
    monkeypatch.setattr(plans, "_time", clock)
    cores(monkeypatch, 2)
    return asked


SEVEN, THREADS = Plan("vmap", 7), Plan("threads", 1, 2)


def test_the_fastest_is_taken(experiment, monkeypatch):
    made = built(experiment)
    for steps, seconds, expected in (
        (1, lambda p: 1.0 if p.how == "threads" else 2.0, THREADS),
        (1, lambda p: 2.0 if p.chunk == 7 else 1.0, Plan("vmap", 4)),
        (1, lambda p: 1.0, SEVEN),  # the first of equals
        (1, lambda p: 1.0 if p.chunk == 7 else 0.96, SEVEN),  # not better by enough
        # a compiler is tried only where it pays, and where clients step together
        (50, lambda p: COSTS.get(p.how, 1.0 + (p.chunk < 7)), SEVEN),
        (10**4, lambda p: COSTS.get(p.how, 1.0 + (p.chunk < 7)), Plan("compiled", 7)),
        (10**4, lambda p: 0.1 if p.how == "threads" else 1.0, THREADS),
        (10**4, lambda p: 2.0 if p.how == "threads" else 1.0, SEVEN),  # gains nothing
        (10**4, lambda p: float("inf") if p.how == "compiled" else 1.0, SEVEN),
    ):
        asked = timed(monkeypatch, seconds)
        assert choose(made, steps=steps) == expected
        tried = any(plan.how == "compiled" for plan in asked)
        assert tried == (steps > 50 and expected != THREADS)


COSTS = {"compiled": 0.5, "threads": 2.0}


def test_something_is_chosen_by_measuring(experiment):
    made = built(experiment)
    f = made.federation
    before = f.broadcast.w.clone()
    plan = choose(made)
    assert plan in list(plans._candidates(f.engine, 7, "auto", 0, 0))
    assert torch.equal(f.broadcast.w, before)  # the work is thrown away
    assert len(f.population.visited) == 0 and f.round == 0


def same(found, expected):
    pairs = zip(found, expected, strict=True)
    return all(torch.allclose(a, b, 0, 1e-12) for a, b in pairs)


def test_a_built_experiment_goes_by_what_was_chosen(experiment, monkeypatch):
    timed(monkeypatch, lambda p: 1.0 if p == Plan("vmap", 2) else 2.0)
    made = build.build(experiment)
    assert made.federation.engine.plan == Plan("vmap", 2)
    assert same(trained(made), trained(built(experiment)))


def test_without_a_compiler_it_falls_back_or_says_so(experiment, monkeypatch):
    made, real, tried = built(experiment), Engine._run, []

    def run(self, *args):
        tried.append(self.plan.how)
        if self.plan.how == "compiled":
            raise OSError("no C++ compiler here")
        return real(self, *args)

    monkeypatch.setattr(Engine, "_run", run)
    with pytest.raises(Refusal, match="no working C.* set engine.how to vmap or auto"):
        choose(made, how="compiled")
    monkeypatch.setattr(plans, "_candidates", lambda *given: [SEVEN])
    assert choose(made, steps=1e12) == SEVEN
    assert tried[-2:] == ["vmap", "compiled"]


def test_a_plan_that_fails_otherwise_says_so(experiment, monkeypatch):
    made = built(experiment)
    monkeypatch.setattr(Engine, "_run", lambda *args: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        choose(made)


# Memory that runs out


OUT = torch.OutOfMemoryError("CUDA out of memory")
NONE = RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate")


def scarce(monkeypatch, most, error):
    real, asked = Engine._together, []

    def together(self, *args):
        asked.append(len(args[0].ids))
        if asked[-1] > most:
            raise error
        return real(self, *args)

    monkeypatch.setattr(Engine, "_together", together)
    return asked


@pytest.mark.slow("memory that runs out, several times")
@pytest.mark.parametrize("error", [NONE, OUT])
@pytest.mark.parametrize("workers", [1, 2])
def test_memory_that_runs_out_halves_the_chunk(experiment, monkeypatch, error, workers):
    expected = trained(built(experiment))
    asked = scarce(monkeypatch, 2, error)
    made = built(experiment, Plan("vmap", 7, workers))
    assert same(trained(made), expected)
    assert made.federation.engine.plan == Plan("vmap", 2, workers)
    assert {7, 4, 2} == set(asked)
    assert sum(k > 2 for k in asked) <= 2 * workers  # learnt once, not every round


@pytest.mark.parametrize(
    ("most", "error"), [(0, "can't allocate memory"), (2, "shapes do not fit")]
)
def test_errors_that_no_smaller_chunk_helps_are_said(
    experiment, most, error, monkeypatch
):
    """A client that does not fit alone, and any error that is not of memory."""
    f = built(experiment, SEVEN).federation
    scarce(monkeypatch, most, RuntimeError(error))
    with pytest.raises(RuntimeError, match=error):
        f.step()
    assert f.round == 0 and len(f.population.visited) == 0
    assert (f.engine.plan == SEVEN) == (most == 2)


def test_measuring_survives_memory_that_runs_out(experiment, monkeypatch):
    expected = trained(built(experiment))
    scarce(monkeypatch, 2, OUT)
    monkeypatch.setattr(plans, "_candidates", lambda *given: [SEVEN])
    made = build.build(experiment)
    assert made.federation.engine.plan.chunk in (2, 7)
    assert same(trained(made), expected)


def test_after_the_rounds_a_gpu_takes_all_at_once(experiment, monkeypatch):
    """But not where a chunk is given, where one client fills it, or on a CPU."""
    engine, few = built(experiment).federation.engine, Plan("vmap", 2)
    assert plans.after(few, engine, 7) == few
    engine.device = torch.device("cuda")  # only its name is read
    monkeypatch.setattr(devices, "free", lambda device: 10**9)
    assert plans.after(few, engine, 7) == SEVEN
    assert plans.after(few, engine, 7, given=2) == few
    for plan in (Plan("vmap", 9), Plan("vmap", 1), LOOP, THREADS):
        assert plans.after(plan, engine, 7) == plan
    monkeypatch.setattr(devices, "free", lambda device: 0)
    assert plans.after(few, engine, 7) == few
