import numpy as np
import pytest
import torch

from troth import build, devices
from troth.config import reader
from troth.engine import plan as plans
from troth.engine import trial as trials
from troth.engine.local_training import Engine, Plan
from troth.engine.trial import Choice, Trial
from troth.types import Refusal

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
    monkeypatch.setattr(devices, "cores", lambda: number)


def test_what_is_given_is_kept_and_not_measured(experiment, monkeypatch):
    monkeypatch.setattr(Engine, "run", None)
    cores(monkeypatch, 2)
    made = built(experiment)
    for wish, expected in (
        ({"how": "loop"}, Plan("loop", 1)),
        ({"how": "loop", "chunk": 5, "workers": 2}, Plan("loop", 1)),
        ({"how": "threads"}, Plan("threads", 1, 2)),
        ({"how": "threads", "workers": 3}, Plan("threads", 1, 3)),
        ({"how": "threads", "workers": 30}, Plan("threads", 1, 7)),
        ({"how": "vmap"}, Plan("vmap", 7)),
        ({"how": "vmap", "chunk": 2}, Plan("vmap", 2)),
        ({"how": "vmap", "chunk": 100}, Plan("vmap", 7)),
        ({"how": "vmap", "chunk": 2, "workers": 2}, Plan("vmap", 2, 2)),
    ):
        assert choose(made, threads=3, **wish) == expected._replace(threads=3)


def chunks(n, workers, room, chunk=0, given=0, most=100):
    wish = Plan("auto", chunk, given, 1)
    return [plan[1:3] for plan in plans._chunks(n, given or workers, room, wish, most)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # a step takes so long that a few clients suffice: equal shares, no padding
        ({"n": 50, "workers": 2, "room": 4}, [(5, 2)]),
        ({"n": 50, "workers": 2, "room": 1}, [(1, 2)]),
        ({"n": 7, "workers": 2, "room": 2}, [(2, 2)]),
        # short steps: all clients of a worker, or all clients as one matrix
        ({"n": 100, "workers": 2, "room": 90}, [(50, 2), (100, 1)]),
        ({"n": 7, "workers": 2, "room": 90}, [(4, 2), (7, 1)]),
        ({"n": 100, "workers": 1, "room": 500}, [(100, 1)]),
        ({"n": 1, "workers": 1, "room": 9}, [(1, 1)]),
        # memory for few clients
        ({"n": 100, "workers": 2, "room": 90, "most": 9}, [(5, 2), (9, 1)]),
        ({"n": 100, "workers": 2, "room": 90, "most": 1}, [(1, 2), (1, 1)]),
        # given
        ({"n": 100, "workers": 2, "room": 5, "chunk": 9}, [(9, 2), (9, 1)]),
        ({"n": 100, "workers": 2, "room": 90, "given": 4}, [(25, 4)]),
    ],
)
def test_chunks_on_a_cpu(given, expected):
    assert chunks(**given) == expected


def test_chunks_on_a_gpu():
    wish = Plan("auto", 0, 0, 1)
    sizes = lambda n, most, wish=wish: [p.chunk for p in plans._lifted(n, wish, most)]  # noqa: E731
    assert sizes(100, 100) == [100, 50, 25, 1]
    assert sizes(7, 2) == [2, 1] and sizes(1, 1) == [1]
    assert sizes(100, 50, wish._replace(chunk=8)) == [8]


def test_what_fits_into_what_is_free(experiment, monkeypatch):
    engine = built(experiment).federation.engine
    one = (8 * engine.task.d + 2 * engine.packing.width) * 8
    for rows, most in ((0, 1), (1, 1), (9, 4), (10**9, 100)):
        monkeypatch.setattr(devices, "free", lambda device, rows=rows: rows * (one + 1))
        assert plans._fits(engine, 100) == most


def timed(monkeypatch, seconds, number=2):
    """Measure by a table instead of a clock, with nothing in the cache."""
    asked = []

    def once(self, plan):
        self.engine.use(plan)
        asked.append(plan._replace(threads=0))
        self.work = seconds(plan) * plan.workers
        return float(seconds(plan))

    monkeypatch.setattr(Trial, "once", once)
    monkeypatch.setattr(trials, "read", lambda facts: None)
    cores(monkeypatch, number)
    return asked


SEVEN, HALVES, THREADS = Plan("vmap", 7), Plan("vmap", 4, 2), Plan("threads", 1, 2)
COSTS = {"compiled": 0.0005, "threads": 0.002}


def test_the_fastest_is_taken(experiment, monkeypatch):
    made = built(experiment)
    for steps, seconds, expected in (
        (1, lambda p: 0.001 if p.how == "threads" else 0.002, THREADS),
        (1, lambda p: 0.001 if p.workers == 2 else 0.002, THREADS),  # first of equals
        (1, lambda p: 0.001 if p == HALVES._replace(threads=1) else 0.002, HALVES),
        (1, lambda p: 0.001 if p.chunk == 7 else 0.002, SEVEN),
        (1, lambda p: 0.001 if p.chunk < 7 else 0.00096, THREADS),  # not by enough
        # a compiler is tried only where it pays, and where clients step together
        (5e4, lambda p: COSTS.get(p.how, 0.001 + (p.chunk < 7)), SEVEN),
        (1e5, lambda p: COSTS.get(p.how, 0.001 + (p.chunk < 7)), Plan("compiled", 7)),
        (1e9, lambda p: 0.001 if p.how == "threads" else 0.002, THREADS),
        (1e9, lambda p: 0.001 if p.chunk == 7 else 0.003, SEVEN),  # gains nothing
    ):
        asked = timed(monkeypatch, seconds)
        assert choose(made, steps=steps, threads=1) == expected._replace(threads=1)
        tried = any(plan.how == "compiled" for plan in asked)
        assert tried == (steps > 50_000 and expected != THREADS)


def test_a_slow_step_needs_no_other_candidate(experiment, monkeypatch):
    """Tracing a large network takes seconds, and lifting it gains nothing."""
    made = built(experiment)
    asked = timed(monkeypatch, lambda p: 0.06)  # two workers: 0.12 s per step
    assert choose(made)[:3] == THREADS[:3] and {*asked} == {THREADS}
    asked = timed(monkeypatch, lambda p: 0.06)
    assert choose(made, chunk=3)[:3] == ("vmap", 3, 2)  # given


def test_a_step_of_middle_length_is_lifted_in_small_chunks(experiment, monkeypatch):
    """As large as makes the overhead of calls negligible, so that tracing is short."""
    asked = timed(monkeypatch, lambda p: 0.02)
    choose(built(experiment))
    assert {*asked} == {THREADS, Plan("vmap", 1, 2)}


def test_something_is_chosen_by_measuring(experiment):
    made = built(experiment)
    f = made.federation
    before = f.broadcast.w.clone()
    plan = choose(made)
    assert plan.how in ("threads", "vmap") and 1 <= plan.chunk <= 7
    assert torch.equal(f.broadcast.w, before)  # the work is thrown away
    assert len(f.population.visited) == 0 and f.round == 0


def same(found, expected):
    pairs = zip(found, expected, strict=True)
    return all(torch.allclose(a, b, 0, 1e-12) for a, b in pairs)


def test_a_built_experiment_goes_by_what_was_chosen(experiment, monkeypatch):
    timed(monkeypatch, lambda p: 0.001 if p.chunk == 7 else 0.002)
    made = build.build(experiment)
    assert made.federation.engine.plan[:3] == SEVEN[:3]
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
    monkeypatch.setattr(plans, "_fastest", lambda *given: Choice(SEVEN, 1.0))
    monkeypatch.setattr(trials, "read", lambda facts: None)
    assert choose(made, steps=1e12)[:3] == SEVEN[:3]
    assert tried[-1] == "compiled"


def test_a_plan_that_fails_otherwise_says_so(experiment, monkeypatch):
    made = built(experiment)
    monkeypatch.setattr(Engine, "_run", lambda *args: 1 // 0)
    monkeypatch.setattr(trials, "read", lambda facts: None)
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
    one = lambda trial, *rest: trial.fastest([SEVEN])  # noqa: E731
    monkeypatch.setattr(plans, "_fastest", one)
    monkeypatch.setattr(trials, "read", lambda facts: None)
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
