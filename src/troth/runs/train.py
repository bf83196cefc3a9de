"""Train an experiment into a folder, go on with one, and open one again."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

import troth
from troth import files, progress
from troth.runs import results
from troth.build import Built, build
from troth.config import reader
from troth.config.schema import Experiment
from troth.engine import placement
from troth.engine import plan as plans
from troth.engine.engine import Plan
from troth.federation import newcomers
from troth.runs.checkpoint import Journal
from troth.runs.load import Run, read_experiment
from troth.networks import build as networks


class State(NamedTuple):
    """Personal state on disk."""

    file: Path
    bytes: int  # at most


class Progress(NamedTuple):
    """What a watcher is told after every round; of state on disk, before the first."""

    label: str
    done: int
    total: int
    evaluation: dict[str, Any] | None  # of this round, if there was one
    state: State | None = None  # said once, before the first round


Watch = Callable[[Progress], None]
UNMEASURED = Plan("loop", 1)
"""For looking at what an experiment comes to, without training it."""


class Interrupted(Exception):
    """Stopped by the user; saved, unless the experiment wants no checkpoints."""


def train(
    experiment: Experiment,
    path: Path,
    *,
    watch: Watch | None = None,
    data_dir: str | None = None,
    plan: Plan | None = None,
) -> dict[str, Any]:
    """Train from the beginning; nothing is written unless everything is in order.

    Args:
        experiment: checked.
        path: a folder that does not exist yet.
        watch: told after every round.
        data_dir: where data sets are looked for first.
        plan: how clients step; None measures.

    Returns:
        What `summary.json` holds.
    """
    files.check_free(path)
    built = build(experiment, data_dir=data_dir, plan=plan)
    state = begin(built, path, data_dir)
    return _go(built, path, state, watch or (lambda p: None))


def begin(built: Built, path: Path, data_dir: str | None) -> Path:
    """Make the folder of a run; where its personal state lies, if it is on disk."""
    experiment = built.experiment
    state = placement.file(path, experiment.engine.state_dir)
    check_room(built, state, path)
    facts = _resolved(built, data_dir)
    if built.federation.population.on_disk and experiment.engine.state_dir:
        facts["state_file"] = str(state)
    resolved = dataclasses.replace(experiment, resolved=facts)
    text = reader.dumps(reader.to_dict(resolved))
    files.create(path, files.EXPERIMENT, text)
    return state


def resume(path: Path, *, watch: Watch | None = None) -> dict[str, Any]:
    """Go on from the last checkpoint; without one, start over.

    A finished run is left as it is.
    """
    experiment = read_experiment(path)
    facts = experiment.resolved
    state = Path(facts.get("state_file", path / placement.FILE))
    if (path / files.SUMMARY).exists():
        forget(path, state)
        return Run(path).summary
    plan = plan_of(experiment)
    networks.unchanged(experiment.model, facts)
    kept = {"device": facts["device"], "store": facts.get("store", "host")}
    engine = dataclasses.replace(experiment.engine, **kept)
    experiment = dataclasses.replace(experiment, engine=engine)
    built = build(experiment, data_dir=facts.get("data_dir"), plan=plan)
    check_room(built, state, path)
    return _go(built, path, state, watch or (lambda p: None))


def check_room(built: Built, state: Path, path: Path) -> None:
    """Refuse a run whose state or models the disk has no room for."""
    if built.federation.population.on_disk:
        placement.check(built.need, state, path)


def plan_of(experiment: Experiment) -> Plan:
    """How the clients of a run stepped."""
    return Plan(**experiment.resolved["plan"])


def _resolved(built: Built, data_dir: str | None) -> dict[str, Any]:
    """What a run writes about itself beside the experiment."""
    plan = built.federation.engine.plan._asdict()
    found = {"plan": plan, **built.facts, "fingerprint": _fingerprint(built)}
    if data_dir:
        found["data_dir"] = data_dir
    versions = {"python": platform.python_version()}
    versions["troth"] = troth.__version__
    for package in ("torch", "numpy", "scipy", "scikit-learn"):
        versions[package] = importlib.metadata.version(package)
    return {**found, "threads": torch.get_num_threads(), "versions": versions} | _git()


def _fingerprint(built: Built) -> str:
    return reader.fingerprint(built.experiment)


def _git() -> dict[str, str]:
    """The revision of the source, where it lies in a git checkout."""
    try:
        out = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {"git": out.stdout.strip()}


def _go(built: Built, path: Path, state: Path, watch: Watch) -> dict[str, Any]:
    """From wherever the folder's checkpoint stands to the last file."""
    f, began = built.federation, time.monotonic()
    with closing(f.population) as population:
        population.open(state)
        if population.on_disk:
            told = State(state, built.need.disk)
            watch(Progress(built.experiment.name, 0, f.rounds, None, told))
        with closing(Journal(path, f)) as journal:
            with stoppable() as stopped:
                began -= journal.restore()
                tables = _train(built, journal, watch, stopped, began)
                for _ in _finish(built, path, stopped):
                    tables = None if f.engine.client.finish else tables
            tables = tables or results.evaluate(built)
            found = results.write(built, path, journal, tables, began)
    forget(path, state)
    return found


def _finish(built: Built, path: Path, stopped: Callable[[], bool]) -> Iterator[int]:
    """What personalizers do after the last round, some clients at a time.

    Newcomers come last.
    """
    f, done = built.federation, 0
    n = len(f.newcomers) + (len(f.members) if f.engine.client.finish else 0)
    plan = plans.after(f.engine.plan, f.engine, n, built.experiment.engine.chunk)
    if plan != f.engine.plan:
        f.engine.use(plan)
    some = at_once(plan)
    what, total = ("personalizing", n) if n < 2000 else ("personalizing, %", 100)
    for count in chain(f.finish(some), newcomers.serve(f, built.experiment, some)):
        done += count
        progress.report(what, total * done // n, total)
        if stopped() and done < n:
            raise Interrupted(path)
        yield count
    if done:
        progress.report("", 0, 0)


def at_once(plan: Plan) -> int:
    """How many clients finish at a time; of those apart, unequal ones even out."""
    return plan.chunk * plan.workers * (4 if plan.apart else 1)


def forget(path: Path, state: Path) -> None:
    """Remove what only an unfinished run needs."""
    for file in (path / files.CHECKPOINT, state):
        file.unlink(missing_ok=True)
        if file.parent.parent == path and file.parent.exists():
            file.parent.rmdir()


def _train(
    built: Built,
    journal: Journal,
    watch: Watch,
    stopped: Callable[[], bool],
    began: float,
) -> results.Tables | None:
    """All rounds that are left; gives the tables of the last."""
    f, e = built.federation, built.experiment
    due, save, plan = evaluations(e), saves(e, began), f.engine.plan
    tables: results.Tables | None = None
    for record in f.train():
        last = f.round == f.rounds
        over = last and f.engine.client.finish is None and not len(f.newcomers)
        if f.engine.plan != plan:  # memory ran out and the chunk was halved
            plan = f.engine.plan
            _record(journal.path, plan)
        tables = results.evaluate(built) if due(f.round) or last else None
        found = results.summaries(built, tables) if tables else None
        journal.write(record, found)
        watch(Progress(e.name, f.round, f.rounds, found))
        if not over:
            save([journal], f.round, last or stopped())
            if stopped():
                raise Interrupted(journal.path)
    return tables


def saves(e: Experiment, began: float) -> Callable[[list[Journal], int, bool], None]:
    """Checkpoints of runs after so many rounds: when they are due, or at once."""
    last = time.monotonic()

    def save(journals: list[Journal], done: int, now: bool) -> None:
        nonlocal last
        every, passed = e.checkpoint.every, time.monotonic() - last
        timely = done % every == 0 if every else passed > e.checkpoint.seconds
        if e.output.checkpoint and (timely or now):
            for journal in journals:
                journal.checkpoint((time.monotonic() - began) / len(journals))
            last = time.monotonic()

    return save


def _record(path: Path, plan: Plan) -> None:
    """Write down a plan that changed on the way, for whoever resumes or reads."""
    experiment = read_experiment(path)
    resolved = {**experiment.resolved, "plan": plan._asdict()}
    changed = dataclasses.replace(experiment, resolved=resolved)
    files.write(path / files.EXPERIMENT, reader.dumps(reader.to_dict(changed)))


def evaluations(e: Experiment) -> Callable[[int], bool]:
    """Whether there is one after so many rounds."""
    every = e.evaluate.every or max(1, e.train.rounds // 20)
    return lambda done: done % every == 0


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks for a stop after the round; a second one stops at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
