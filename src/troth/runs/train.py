"""Train an experiment into a folder, or resume a run from its folder."""

import dataclasses
import importlib.metadata
import json
import logging
import platform
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

import troth
from troth import devices, files, progress
from troth.build import Built, build
from troth.config import reader
from troth.config.schema import Experiment
from troth.engine import plan as plans
from troth.engine.local_training import Plan
from troth.federation import newcomers
from troth.federation.rounds import Federation
from troth.networks import build as networks
from troth.runs import results
from troth.runs.checkpoint import Journal
from troth.runs.load import Run, read_experiment
from troth.types import Record, Refusal

if TYPE_CHECKING:
    from troth.federation.stacked import Stack


class State(NamedTuple):
    """The file that holds the clients' states on disk."""

    file: Path
    bytes: int  # largest size of the file


class Progress(NamedTuple):
    """The progress that is passed to `watch` after every round.

    If client states are on disk, `watch` is also called before the first round, with
    `state`.
    """

    label: str
    done: int
    total: int
    evaluation: dict[str, Any] | None  # evaluation of this round, if any
    state: State | None = None  # only in the call before the first round
    run: int = 1  # number of this run in its grid, from 1
    runs: int = 1  # number of runs in the grid
    over: int = 0  # runs of the grid that had finished before this command


Watch = Callable[[Progress], None]


def numbered(watch: Watch | None, run: int, runs: int, over: int = 0) -> Watch | None:
    """Return a watch function that adds the number of the run in its grid."""
    if watch is None:
        return None
    return lambda p: watch(p._replace(run=run, runs=runs, over=over))


UNMEASURED = Plan("loop", 1)
"""Plan (how clients are batched) for experiments that are built but not trained. It
avoids measuring which plan is fastest."""


_log = logging.getLogger("troth.run")


class Interrupted(Exception):
    """The user stopped a run; a checkpoint is saved if the experiment writes any."""


class Begun(NamedTuple):
    """A run whose folder has been made."""

    built: Built
    path: Path
    state: Path  # file for the clients' states, if they are on disk


def train(
    experiment: Experiment,
    path: Path,
    *,
    watch: Watch | None = None,
    data_dir: str | None = None,
    plan: Plan | None = None,
) -> dict[str, Any]:
    """Train an experiment into a new folder; return the content of `summary.json`.

    All checks are made before any file is written. A plan says how clients are batched;
    without one, the engine measures which plan is fastest.
    """
    files.check_free(path)
    built = build(experiment, data_dir=data_dir, plan=plan)
    return go_on([begin(built, path, data_dir)], watch)[0]


def begin(built: Built, path: Path, data_dir: str | None) -> Begun:
    """Make the folder of a run and write its experiment."""
    experiment, plan = built.experiment, built.federation.engine.plan
    state = plans.file(path, experiment.engine.state_dir)
    check_room(built, state, path)
    versions = {"python": platform.python_version(), "troth": troth.__version__}
    for package in ("torch", "numpy", "scipy", "scikit-learn"):
        versions[package] = importlib.metadata.version(package)
    facts = {"plan": plan._asdict(), **built.facts}
    facts["fingerprint"] = reader.fingerprint(experiment, facts.get("data_sha256", ""))
    facts |= {"data_dir": data_dir} if data_dir else {}
    facts |= {
        "threads": plan.threads or torch.get_num_threads(),
        "versions": versions,
    } | _git()
    if built.federation.population.on_disk and experiment.engine.state_dir:
        facts["state_file"] = str(state)
    resolved = dataclasses.replace(experiment, resolved=facts)
    text = reader.dumps(reader.to_dict(resolved))
    files.create(path, files.EXPERIMENT, text)
    return Begun(built, path, state)


def resume(path: Path, *, watch: Watch | None = None) -> dict[str, Any]:
    """Resume a run from its last checkpoint, or from the start if there is none.

    Return the content of `summary.json`. A finished run is not changed.
    """
    experiment = read_experiment(path)
    facts = experiment.resolved
    state = Path(facts.get("state_file", path / plans.FILE))
    if (path / files.SUMMARY).exists():
        forget(path, state)
        return Run(path).summary
    networks.unchanged(experiment.model, facts)
    kept = {"device": facts["device"], "store": facts.get("store", "host")}
    engine = dataclasses.replace(experiment.engine, **kept)
    again = dataclasses.replace(experiment, engine=engine)
    built = build(again, data_dir=facts.get("data_dir"), plan=plan_of(experiment))
    check_same(built.facts, facts, path)
    check_room(built, state, path)
    return go_on([Begun(built, path, state)], watch)[0]


def check_same(now: dict[str, Any], before: dict[str, Any], path: Path) -> None:
    """Raise Refusal if the data or the network of a run have changed."""
    for key, what in (("data_sha256", "data"), ("model_sha256", "network")):
        if key in before and now.get(key) != before[key]:
            raise Refusal(
                f"the {what} of {path} changed since it was trained (SHA-256 "
                f"{before[key][:12]}… then, {now.get(key, 'none')[:12]}… now); restore "
                f"what it was trained with, or train anew into another folder"
            )


def check_room(built: Built, state: Path, path: Path) -> None:
    """Raise Refusal if the states or models of a run do not fit on the disk."""
    if built.federation.population.on_disk:
        plans.check(built.need, state, path)


def plan_of(experiment: Experiment) -> Plan:
    """Return the plan (how clients are batched) with which a run was trained."""
    return Plan(**experiment.resolved["plan"])


def _git() -> dict[str, str]:
    """Return the revision of the source if it is in a git checkout."""
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


def go_on(
    runs: Sequence[Begun], watch: Watch | None = None, stacks: Sequence["Stack"] = ()
) -> list[dict[str, Any]]:
    """Train runs from their checkpoints to the end; return their summaries.

    If there are several runs, `stacks` trains them together.
    """
    began, watch = time.monotonic(), watch or (lambda p: None)
    with ExitStack() as open_:
        journals = [
            open_.enter_context(closing(Journal(run.path, run.built.federation)))
            for run in runs
        ]
        open_.enter_context(_ending([run.path for run in runs]))
        threads = runs[0].built.federation.engine.plan.threads
        open_.enter_context(devices.using(threads))
        for built, _, state in runs:
            population = open_.enter_context(closing(built.federation.population))
            population.open(state)
            if population.on_disk:
                said, e = State(state, built.need.disk), built.experiment
                watch(Progress(e.name, 0, e.train.rounds, None, said))
        with stoppable() as stopped:
            began -= sum(journal.restore() for journal in journals)
            for run in runs:
                _started(run)
            tables = _rounds(runs, stacks, journals, watch, stopped, began)
            _finish(runs[0], stacks, stopped)
            if runs[0].built.federation.engine.client.finish:
                tables = []
        tables = tables or [results.evaluate(run.built) for run in runs]
        took = (time.monotonic() - began) / len(runs)  # an equal share of the time
        found = []
        for run, journal, table in zip(runs, journals, tables, strict=True):
            since = time.monotonic() - took
            found.append(results.write(run.built, run.path, journal, table, since))
    for run in runs:
        forget(run.path, run.state)
        _log.info("finished %s after %.1f s", run.path, took)
    return found


@contextmanager
def _ending(paths: Sequence[Path]) -> Iterator[None]:
    """Record in the folders of runs why they end early, until they are resumed."""
    for path in paths:
        (path / files.ENDED).unlink(missing_ok=True)
    try:
        yield
    except BaseException as error:
        asked = isinstance(error, Interrupted | KeyboardInterrupt)
        how = {"state": "interrupted" if asked else "failed"}
        how["why"] = "" if asked else f"{type(error).__name__}: {error}"
        for path in paths:
            with suppress(OSError):  # the folder may be gone, or the disk full
                files.put(path / files.ENDED, f"{json.dumps(how)}\n".encode())
        raise


def _started(run: Begun) -> None:
    f = run.built.federation
    first = f"resumed after round {f.round}" if f.round else "started"
    engine = f"{f.engine.plan.how} on {f.engine.device}"
    facts = f"{f.rounds} rounds, {f.population.n} clients, {engine}"
    _log.info("%s %s: %s", first, run.path, facts)


def _finish(run: Begun, stacks: Sequence["Stack"], stopped: Callable[[], bool]) -> None:
    """Train clients after the last round, in chunks, and then newcomers."""
    f, e, done = run.built.federation, run.built.experiment, 0
    n = len(f.newcomers) + (len(f.members) if f.engine.client.finish else 0)
    if stacks:
        plan = f.engine.plan
        parts = (s.finish(-(-at_once(plan) // len(s.federations))) for s in stacks)
        counts, n = chain.from_iterable(parts), n * len(stacks)
    else:
        plan = plans.after(f.engine.plan, f.engine, n, e.engine.chunk)
        if plan != f.engine.plan:
            f.engine.use(plan)
        some = at_once(plan)
        counts = chain(f.finish(some), newcomers.serve(f, e, some))
    what, total = ("personalizing", n) if n < 2000 else ("personalizing, %", 100)
    for count in counts:
        done += count
        progress.report(what, total * done // n, total)
        if stopped() and done < n:
            raise Interrupted(run.path)
    if done:
        progress.report("", 0, 0)


def at_once(plan: Plan) -> int:
    """Return the number of clients in a chunk after the last round.

    If clients are trained one by one, each worker gets four of them, so that the
    workers have about equal work.
    """
    return plan.chunk * plan.workers * (4 if plan.apart else 1)


def forget(path: Path, state: Path) -> None:
    """Remove the files that only an unfinished run needs."""
    for file in (path / files.CHECKPOINT, state):
        file.unlink(missing_ok=True)
        if file.parent.parent == path and file.parent.exists():
            file.parent.rmdir()


def _rounds(
    runs: Sequence[Begun],
    stacks: Sequence["Stack"],
    journals: list[Journal],
    watch: Watch,
    stopped: Callable[[], bool],
    began: float,
) -> list[results.Tables]:
    """Train the remaining rounds; return the tables of the last evaluation."""
    f, e = runs[0].built.federation, runs[0].built.experiment
    every, save = e.evaluate.every or max(1, f.rounds // 20), saves(e, began)
    plan = f.engine.plan
    name = f"{len(runs)} runs together" if stacks else e.name
    after = f.engine.client.finish is not None or len(f.newcomers) > 0
    tables, ahead = list[results.Tables](), False
    if f.round < f.rounds:
        progress.report(f"round {f.round + 1}", 0, 0)
    while f.round < f.rounds:
        done = f.round + 1
        last = done == f.rounds
        due = last or done % every == 0  # whether to evaluate
        for stack in () if ahead else stacks:
            stack.launch()
        ahead = not due
        records, failed = _stepped(f, stacks, ahead)
        if f.engine.plan != plan:  # chunks were halved because memory ran out
            plan = f.engine.plan
            _record(runs[0].path, plan)
            many = f"{plan.chunk} clients at once"
            _log.warning("memory ran out in round %d: now %s", done, many)
        tables = [results.evaluate(run.built) for run in runs] if due else []
        pairs = zip(runs, tables, strict=False)
        found = [results.summaries(run.built, table) for run, table in pairs]
        for k, (journal, record) in enumerate(zip(journals, records, strict=True)):
            journal.write(record, found[k] if found else None)
            _finished_round(runs[k].path, record, found[k] if found else {})
        watch(Progress(name, done, f.rounds, found[0] if found else None))
        if not last or after:
            save(journals, done, last or stopped() or failed is not None)
            if stopped():
                _log.info("stopped %s after round %d", runs[0].path, done)
                raise Interrupted(runs[0].path)
        if failed is not None:
            raise failed
    return tables


def _finished_round(path: Path, record: Record, evaluated: dict[str, Any]) -> None:
    """Log a round: at level INFO if it was evaluated or had no effect, else DEBUG."""
    scores = {
        f"{kind}.{metric}": f"{evaluated[kind][f'{metric}_mean']:.4g}"
        for kind in ("personal", "shared")
        for metric in (*files.METRICS, "loss")
        if f"{metric}_mean" in evaluated.get(kind, {})
    }
    level = logging.INFO if scores or record.stayed else logging.DEBUG
    if _log.isEnabledFor(level):
        words = [f"{name} {value}" for name, value in scores.items()]
        words += [f"shared model unchanged: {record.why}"] if record.stayed else []
        text = ", ".join([f"{len(record.cohort)} clients", *words])
        _log.log(level, "round %d of %s: %s", record.round + 1, path, text)


def _stepped(
    f: Federation, stacks: Sequence["Stack"], ahead: bool
) -> tuple[list[Record], Exception | None]:
    """Finish one round, and begin the next one if `ahead` is true.

    Return the records, and the error if the next round could not begin.
    """
    records, failed = [] if stacks else [f.step()], None
    for stack in stacks:
        records += stack.land()
        if ahead and failed is None:
            try:
                stack.launch()
            except Exception as error:
                failed = error
    return records, failed


def saves(e: Experiment, began: float) -> Callable[[list[Journal], int, bool], None]:
    """Return a function that saves checkpoints when they are due, or on request."""
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
    """Write a plan that changed during the run to its experiment, for resuming."""
    experiment = read_experiment(path)
    resolved = {**experiment.resolved, "plan": plan._asdict()}
    changed = dataclasses.replace(experiment, resolved=resolved)
    files.write(path / files.EXPERIMENT, reader.dumps(reader.to_dict(changed)))


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C request a stop after the round; a second Ctrl-C stops at once.

    Yield a function that returns whether a stop was requested.
    """
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
