"""Choose by measurement how clients are computed and where their states are stored."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from troth import devices, files, progress
from troth.config.schema import Experiment
from troth.engine import trial as trials
from troth.engine.local_training import Engine, Plan
from troth.engine.population import Population
from troth.engine.trial import Choice, Trial
from troth.networks import validate
from troth.types import Broadcast, Notice, Refusal

_WORTH_COMPILING = 90.0  # seconds; shorter training is not compiled
_LONG = 0.15  # seconds of one measurement of a plan with vmap on a CPU
_HEAVY = 0.1  # seconds; if a step of one client takes longer, vmap is not measured


def choose(
    engine: Engine,
    broadcast: Broadcast,
    population: Population,
    cohort: np.ndarray,
    client_steps: float,
    how: str = "auto",
    chunk: int = 0,
    workers: int = 0,
    threads: int = 0,
    about: str = "",
) -> Plan:
    """Choose the fastest plan for this machine, model and cohort.

    A plan says how clients are batched and computed. Settings other than "auto" and 0
    are kept. With `how` = "auto", possible plans are measured on a few clients and
    steps, and the results of these steps are discarded. The choice is stored in the
    user's cache, so that the next run of the same workload does not measure again. A
    compiler is tried only in long runs.

    Args:
        engine: Engine to measure.
        broadcast: Message of the server in the first round.
        population: States of the clients.
        cohort: Ids of the clients of a round.
        client_steps: Number of steps of the whole run, summed over clients.
        how: "auto", or the way in which steps are computed (see `Plan`).
        chunk: Number of clients computed together; 0 means automatic.
        workers: Number of threads that compute clients; 0 means automatic.
        threads: Number of threads of one torch operation; 0 means automatic.
        about: Further settings that affect the speed, as a part of the cache's key.

    Returns:
        The plan.

    Raises:
        Refusal: If the network or the machine does not support `how`.
    """
    threads = threads or devices.threads(engine.device)
    wish = Plan(how, chunk, workers, threads)
    trial = Trial(engine, broadcast, population, cohort)
    _allowed(engine, how)
    with devices.using(threads):
        if how == "auto":
            best = _measured(trial, client_steps, wish, about)
            engine.step_seconds = best.seconds
            progress.report("", 0, 0)
            _notify(engine, best.seconds, client_steps)
            return best.plan._replace(threads=threads)
        _notify(engine)
        plan = _given(engine, len(cohort), wish)
        if how == "compiled" and not trial.runs(plan):
            raise Refusal(
                "engine.how = 'compiled' does not run here: no working C++ compiler "
                "was found; set engine.how to vmap or auto"
            )
        return plan


def _allowed(engine: Engine, how: str) -> None:
    """Raise Refusal if the network does not support `how`."""
    if how not in ("auto", *engine.ways):
        raise Refusal(
            f"engine.how = '{how}' does not suit this network: "
            f"{validate.sentence(engine.objective.obstacles)}; set engine.how to auto "
            "or loop"
        )


def _notify(engine: Engine, seconds: float = 0.0, client_steps: float = 0.0) -> None:
    """Warn of layers that slow the training down, with the measured time."""
    if not engine.objective.obstacles:
        return
    text = validate.sentence(engine.objective.obstacles)
    if seconds:
        each = f"{1000 * seconds:.2g} ms" if seconds < 1 else f"{seconds:.2g} s"
        minutes = seconds * client_steps / 60
        whole = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
        whole = whole if minutes >= 1 else "less than a minute"
        text += f". A step of one client takes {each} here, and all steps {whole}"
    progress.warn(text, Notice)


def _given(engine: Engine, n: int, wish: Plan) -> Plan:
    """Return the plan for n clients if `how` is given; nothing is measured.

    By default, chunks have the largest size for which memory is enough.
    """
    if wish.how == "loop":
        return Plan("loop", 1, threads=wish.threads)
    if wish.how == "threads":
        return _one_by_one(n, wish)
    size = min(wish.chunk or _fits(engine, n), n)
    return Plan(wish.how, size, max(1, wish.workers), wish.threads)


def _one_by_one(n: int, wish: Plan) -> Plan:
    workers = max(1, min(wish.workers or devices.cores(), n))
    return Plan("threads", 1, workers, wish.threads)


def _measured(trial: Trial, client_steps: float, wish: Plan, about: str) -> Choice:
    """Return the fastest plan, from the cache or by measurement."""
    most = _fits(trial.engine, trial.n)
    facts = trials.facts(trial.engine, trial.n, trial.steps, wish, about)
    best = trials.read(facts)
    ways = trial.engine.ways
    if best is None or best.plan.chunk > most or best.plan.how not in ways:
        best = _fastest(trial, wish, most)
        trials.write(facts, best)
    left = best.seconds * client_steps
    if not (best.plan.apart or best.compiled) and left > _WORTH_COMPILING:
        best = trial.compiled(best)
        trials.write(facts, best)
    return best


def _fastest(trial: Trial, wish: Plan, most: int) -> Choice:
    """Measure candidates, with chunks of at most `most` clients; return the fastest.

    On a CPU, the plan that computes clients one by one is measured first. The time of
    its steps decides which other plans are candidates.
    """
    cpu = trial.engine.device.type == "cpu"
    if "vmap" not in trial.engine.ways:
        threads = cpu and "threads" in trial.engine.ways
        others = [_one_by_one(trial.n, wish)] if threads else []
        return trial.fastest([Plan("loop", 1, threads=wish.threads), *others])
    if not cpu:
        return trial.fastest([*_lifted(trial.n, wish, most)])
    alone = _one_by_one(trial.n, wish)
    several = alone.workers > 1 and not wish.workers
    trial.begin(alone, 3 if several else 2)
    seconds = trial.once(alone)
    if seconds * alone.workers > _HEAVY and not wish.chunk:
        return Choice(alone, seconds)
    room = max(1, int(_LONG / (trial.work * trial.steps + 1e-9)))
    lifted = [*_chunks(trial.n, alone.workers, room, wish, most)]
    if wish.chunk > 1:
        return trial.fastest(lifted)
    return trial.fastest([alone, *lifted], ready=1)


def _chunks(n: int, workers: int, room: int, wish: Plan, most: int) -> Iterator[Plan]:
    """Yield plans with vmap on a CPU.

    Args:
        n: Number of clients in a round.
        workers: Number of threads that compute clients.
        room: Size of a chunk above which the overhead of calls is negligible.
        wish: Settings of the user.
        most: Number of clients that fit into memory.
    """
    share = -(-n // workers)  # number of clients of a worker
    least = min(room, share, max(1, most // workers))
    sizes = range(least, min(2 * least, share) + 1)
    even = min(sizes, key=lambda size: -(-share // size) * size)  # least padding
    yield Plan("vmap", wish.chunk or even, workers, wish.threads)
    if workers > 1 and not wish.workers and (room >= share or wish.chunk):
        yield Plan("vmap", min(wish.chunk or most, n), 1, wish.threads)


def _lifted(n: int, wish: Plan, most: int) -> Iterator[Plan]:
    """Yield plans with vmap on a GPU, with the largest chunks first.

    Small chunks are candidates, because a few clients with a large network use all of a
    GPU.
    """
    shares = {-(-most // k) for k in (1, 2, 4)} | {1}
    for size in [wish.chunk] if wish.chunk else sorted(shares, reverse=True):
        yield Plan("vmap", min(size, n), max(1, wish.workers), wish.threads)


def after(plan: Plan, engine: Engine, n: int, given: int = 0) -> Plan:
    """Return the plan for the training of n clients after the last round.

    A chunk that the user set (`given`) is kept. On a GPU, a step of many clients takes
    hardly longer than a step of few. So chunks are as large as memory allows, unless
    chunks of one client were measured to be fastest.
    """
    if given or plan.apart or plan.chunk == 1 or engine.device.type != "cuda":
        return plan
    return plan._replace(chunk=max(plan.chunk, _fits(engine, n)))


def _fits(engine: Engine, n: int) -> int:
    """Return for how many clients half of the free memory is enough, at most n."""
    rows = 8 * engine.task.d + 2 * engine.packing.width
    one = rows * engine.feed.dtype.itemsize + 1
    return int(max(1, min(n, devices.free(engine.device) // 2 // one)))


FILE = "state/rows.bin"  # path in the folder of a run


class Need(NamedTuple):
    """Upper bounds of the bytes that the clients' states of a run take."""

    rows: int  # states of all clients that will ever take part
    shadow: int  # on disk: older states that belong to the last checkpoint
    models: int  # file of the personal models

    @property
    def disk(self) -> int:
        """Upper bound of the size of the state file."""
        return self.rows + self.shadow


def need(e: Experiment, n: int, row: int, model: int, finishes: bool) -> Need:
    """Return upper bounds of the bytes that the states of n clients take.

    A client that never takes part needs none.

    Args:
        e: Experiment of the run.
        n: Number of clients.
        row: Bytes of the state of one client.
        model: Bytes of one model.
        finishes: Whether every client trains after the last round.
    """
    cohort = e.train.cohort or n
    visited = n if finishes else min(n, e.train.rounds * cohort)
    moved = visited  # number of clients that train between two checkpoints
    if e.checkpoint.every and not finishes:
        moved = min(visited, e.checkpoint.every * cohort)
    shadow = moved * row if e.output.checkpoint else 0
    models = (visited + 1) * model if e.output.personal and row else 0
    return Need(visited * row, shadow, models)


def settled(wish: str, rows: int, where: torch.device) -> str:
    """Return where clients' states are stored: "device", "host" or "disk".

    With wish = "auto", this is "device" if the device has twice the memory that the
    states need, otherwise "host" if the host has, and otherwise "disk".
    """
    if wish != "auto":
        return wish
    host = torch.device("cpu")
    for name, place in (("device", where), ("host", host)):
        if rows <= devices.free(place) // 2:
            return name
    return "disk"


def place(name: str, where: torch.device) -> torch.device | None:
    """Return the device on which states are stored, or None for a file."""
    return {"device": where, "host": torch.device("cpu"), "disk": None}[name]


def file(path: Path, state_dir: str) -> Path:
    """Return the path of a run's state file, in the run's folder or in `state_dir`."""
    if not state_dir:
        return path / FILE
    whole = str(path.absolute()).encode()  # folders of runs may have equal names
    name = f"{path.name}-{hashlib.blake2b(whole, digest_size=6).hexdigest()}.rows"
    return Path(state_dir).expanduser().absolute() / name


def check(need: Need, rows: Path, path: Path) -> None:
    """Raise Refusal if the disk has too little space for the clients' states.

    The present size of the state file `rows` is counted as free space, because the file
    is reused. Personal models are written to `path`, which may be on another disk.
    """
    there = rows.stat().st_size if rows.exists() else 0
    state, models = files.above(rows), files.above(path)
    if not state.is_dir() or not os.access(state, os.W_OK):
        raise Refusal(
            f"the state file {rows} cannot be created, because {state} is not a folder "
            "that you may write to; set engine.state_dir to such a folder"
        )
    together = state.stat().st_dev == models.stat().st_dev
    wanted = need.disk - there + (need.models if together else 0)
    _room(state, wanted, need, "engine.state_dir to a folder on a larger disk")
    if not together:
        _room(models, need.models, need, "output.personal = false")


def _room(folder: Path, wanted: int, need: Need, remedy: str) -> None:
    free = shutil.disk_usage(folder).free
    if wanted > free:
        more = f", the clients' models another {size(need.models)}"
        more = more if need.models else ""
        raise Refusal(
            f"client state on disk may take {size(need.disk)}{more}; {size(wanted)} of "
            f"this would be on the disk of {folder}, which has {size(free)} free; "
            f"make room, or set {remedy}"
        )


def size(count: int) -> str:
    """Format a number of bytes, such as `8.9 GB`."""
    value, units = float(count), ["kB", "MB", "GB", "TB"]
    if value < 1000:
        return f"{count} bytes"
    while (value := value / 1000) >= 1000 and len(units) > 1:
        units.pop(0)
    return f"{value:.1f} {units[0]}"
