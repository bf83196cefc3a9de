import time
from types import SimpleNamespace

import pytest
import torch

from troth import build, progress
from troth.config import reader
from troth.engine import trial
from troth.engine.local_training import Engine, Plan
from troth.engine.trial import Choice, Trial

FAST, EQUAL, SLOW = Plan("vmap", 7), Plan("vmap", 4, 2), Plan("threads", 1, 2)


@pytest.fixture
def made(tree):
    f = build.build(reader.from_dict(tree), plan=Plan("loop", 1)).federation
    return Trial(f.engine, f.broadcast, f.population, f.sample(0))


@pytest.fixture
def clock(monkeypatch):
    """A clock that only measurements move."""
    now = SimpleNamespace(seconds=0.0)
    fake = SimpleNamespace(
        monotonic=lambda: now.seconds,
        perf_counter=time.perf_counter,
        process_time=time.process_time,
    )
    monkeypatch.setattr(trial, "time", fake)
    return now


def measured(monkeypatch, clock, seconds):
    """Measure by a table: plan → the seconds of its first run and of all others."""
    asked = []

    def once(self, plan):
        asked.append(plan)
        first, *others = seconds[plan]
        k = asked.count(plan) - 2
        took = first if k < 0 else others[k % len(others)]
        clock.seconds += took
        return took

    monkeypatch.setattr(Trial, "once", once)
    return asked


def test_each_is_run_once_and_then_they_take_turns(monkeypatch, clock, made):
    times = {FAST: (0.1, 0.05), EQUAL: (0.1, 0.06), SLOW: (0.1, 0.07)}
    asked = measured(monkeypatch, clock, times)
    assert made.fastest([SLOW, EQUAL, FAST]) == Choice(FAST, 0.05)
    assert asked == [SLOW, EQUAL, FAST] * 4


def test_short_measurements_are_repeated(monkeypatch, clock, made):
    asked = measured(monkeypatch, clock, {FAST: (0.001, 0.001), SLOW: (0, 0.0012)})
    assert made.fastest([FAST, SLOW]).plan == FAST
    assert asked.count(FAST) == asked.count(SLOW) == 11


def test_what_is_clearly_slower_is_not_measured_again(monkeypatch, clock, made):
    asked = measured(monkeypatch, clock, {FAST: (0.2, 0.1), SLOW: (0.2, 0.16)})
    assert made.fastest([SLOW, FAST]).plan == FAST
    assert asked.count(SLOW) == 2 and asked.count(FAST) == 4


def test_a_busy_moment_does_not_decide(monkeypatch, clock, made):
    """One disturbed measurement of each: the shortest counts."""
    times = {FAST: (0.1, 0.14, 0.05, 0.05), SLOW: (0.1, 0.1, 0.3, 0.1)}
    measured(monkeypatch, clock, times)
    assert made.fastest([SLOW, FAST]) == Choice(FAST, 0.05)


def test_the_first_of_equals_is_taken(monkeypatch, clock, made):
    measured(monkeypatch, clock, {FAST: (0.1, 0.096), EQUAL: (0.1, 0.1)})
    assert made.fastest([EQUAL, FAST]).plan == EQUAL


def test_time_is_limited(monkeypatch, clock, made):
    asked = measured(monkeypatch, clock, {FAST: (1.0, 1.0), SLOW: (1.0, 1.1)})
    assert made.fastest([FAST, SLOW]).plan == FAST
    assert asked == [FAST, SLOW] * 2


def test_on_a_gpu_they_follow_each_other(monkeypatch, clock, made):
    """Graphs of several plans would take memory at the same time."""
    made._on_cpu, made._ends = False, 4.0
    asked = measured(monkeypatch, clock, {p: (0.5, 0.4) for p in (FAST, EQUAL)})
    assert made.fastest([FAST, EQUAL]).plan == FAST
    assert asked == [FAST] * 4 + [EQUAL] * 4
    times = {FAST: (5.0, 0.4), EQUAL: (0.5, 0.4)}  # the first took all the time
    asked = measured(monkeypatch, clock, times)
    assert made.fastest([FAST, EQUAL]).plan == FAST and EQUAL not in asked


@pytest.mark.parametrize(("step", "asked_of"), [(1e-4, 1), (2e-3, 2)])
def test_where_a_step_takes_long_one_client_is_measured_too(
    monkeypatch, clock, made, step, asked_of
):
    """It may fill a GPU. Others are left out when it is late."""
    made._on_cpu = False
    few, one = Plan("vmap", 3), Plan("vmap", 1)
    times = {FAST: (9.0, step), few: (1.0, step), one: (1.0, step / 2)}
    asked = measured(monkeypatch, clock, times)
    found = made.fastest([FAST, few, one]).plan
    assert len({*asked}) == asked_of and few not in asked
    assert found == (one if asked_of == 2 else FAST)


def test_what_goes_on_is_reported(monkeypatch, clock, made):
    measured(monkeypatch, clock, {p: (0.1, 0.1) for p in (FAST, SLOW)})
    heard = []
    with progress.watching(lambda *given: heard.append(given)):
        made.begin(SLOW, 2)
        made.fastest([SLOW, FAST], ready=1)
    assert [what for what, *_ in heard] == [
        "measuring plan 1 of 2",
        "measuring plan 2 of 2",
    ]


def test_a_compiled_plan_must_pay(monkeypatch, clock, made):
    compiled, choice = FAST._replace(how="compiled"), Choice(FAST, 0.1)
    for seconds, expected in (
        (0.05, Choice(compiled, 0.05, True)),
        (0.099, Choice(FAST, 0.1, True)),
    ):
        measured(monkeypatch, clock, {compiled: (9.0, seconds)})
        assert made.compiled(choice) == expected
    monkeypatch.setattr(Trial, "once", lambda self, plan: 1 // 0)
    assert made.compiled(choice) == Choice(FAST, 0.1, True)


def test_clients_with_the_most_steps_step_and_nothing_is_kept(made, monkeypatch):
    real, asked = Engine.run, []

    def run(self, name, broadcast, rows, ids, round_, limit):
        asked.append((ids.tolist(), limit))
        return real(self, name, broadcast, rows, ids, round_, limit)

    monkeypatch.setattr(Engine, "run", run)
    per_epoch = made.engine.feed.per_epoch
    before = made._broadcast.w.clone()
    assert made.once(Plan("vmap", 2)) > 0 and made.once(Plan("threads", 1, 1)) > 0
    [(two, limit), (one, _)] = asked
    most = int(per_epoch.max())
    assert limit == min(3, most) and per_epoch[two[0]] == most and one == two[:1]
    assert torch.equal(made._broadcast.w, before)
    assert len(made._population.visited) == 0
