"""Choose, by measurement, how clients step and where their state is stored."""

import hashlib
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import devices, files
from troth.config.schema import Experiment
from troth.engine.local_training import Engine, Plan
from troth.engine.population import Population
from troth.networks import validate
from troth.types import Broadcast, Notice, Refusal

_WORTH_COMPILING = 90.0  # seconds of training; with less, no compiler is tried
_BETTER = 0.95  # a later candidate must take less than this share of the best time
_STEPS = 3


def choose(
    engine: Engine,
    broadcast: Broadcast,
    population: Population,
    cohort: np.ndarray,
    client_steps: float,
    how: str = "auto",
    chunk: int = 0,
    workers: int = 0,
) -> Plan:
    """Choose the fastest plan for this machine, model and cohort.

    Settings other than "auto" and 0 are kept. The others are measured on the cohort,
    and the results of the measurement are discarded. A compiler is tried only if the
    run is long enough to make up for the time of compilation.

    Args:
        engine: Engine that executes the plans.
        broadcast: What the server sends in the first round.
        population: States of the clients.
        cohort: Ids of the clients that step in the measurement.
        client_steps: Number of steps of the whole run, summed over clients.
        how: "auto", or the way in which clients step (see `Plan`).
        chunk: Number of clients that step together; 0 is measured.
        workers: Number of threads; 0 is measured.
    """
    obstacles = engine.objective.obstacles
    if how not in ("auto", *engine.ways):
        raise Refusal(
            f"engine.how = '{how}' does not suit this network: "
            f"{validate.sentence(obstacles)}; set engine.how to auto or loop"
        )
    best, best_time, rows = None, float("inf"), population.read(cohort)
    given = how != "auto" and (chunk > 0 or how in ("loop", "threads"))
    for plan in _candidates(engine, len(cohort), how, chunk, workers):
        if given:
            _tell(engine, 0.0, 0.0)
            return plan
        seconds = _time(engine, plan, broadcast, rows, cohort)
        if seconds < best_time * (1.0 if best is None else _BETTER):
            best, best_time = plan, seconds
    if best is None:
        raise Refusal(
            f"engine.how = '{how}' does not run here: no working C++ compiler was "
            "found; set engine.how to vmap or auto"
        )
    left = best_time * client_steps
    if how == "auto" and not best.apart and left > _WORTH_COMPILING:
        plan = best._replace(how="compiled")
        if _time(engine, plan, broadcast, rows, cohort) < best_time * _BETTER:
            best = plan
    _tell(engine, best_time, client_steps)
    return best


def _tell(engine: Engine, seconds: float, client_steps: float) -> None:
    """Warn of layers that slow training down, with the measured cost."""
    if not engine.objective.obstacles:
        return
    text = validate.sentence(engine.objective.obstacles)
    if seconds:
        each = f"{1000 * seconds:.2g} ms" if seconds < 1 else f"{seconds:.2g} s"
        minutes = seconds * client_steps / 60
        whole = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
        whole = whole if minutes >= 1 else "less than a minute"
        text += f". A step of one client takes {each} here, and all steps {whole}"
    warnings.warn(text, Notice, stacklevel=2)


def after(plan: Plan, engine: Engine, n: int, given: int = 0) -> Plan:
    """Choose how all n clients step after the last round; keep a given chunk.

    On a GPU, a step of many clients takes hardly longer than a step of few. So the
    chunk is as large as memory allows, unless the measurement found that a single
    client fills the GPU.
    """
    if given or plan.apart or plan.chunk == 1 or engine.device.type != "cuda":
        return plan
    return plan._replace(chunk=max(plan.chunk, _fits(engine, n)))


def _candidates(
    engine: Engine, n: int, how: str, chunk: int, workers: int
) -> Iterator[Plan]:
    """Yield lifted plans, with the largest chunks first, then threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    fits = _fits(engine, n)
    shares = {-(-fits // k) for k in (1, 2, 4)}
    if engine.device.type == "cuda":  # one client with a large network fills it
        shares |= {1}
    sizes = [chunk] if chunk else sorted(shares, reverse=True)
    if how in ("auto", "vmap", "compiled") and "vmap" in engine.ways:
        lifted = "vmap" if how == "auto" else how
        for size in sizes:
            yield Plan(lifted, min(size, n), max(1, workers))
        if not workers and engine.device.type == "cpu" and n >= cores > 1:
            yield Plan(lifted, chunk or min(fits, -(-n // cores)), cores)
    if how == "loop" or (how == "auto" and "vmap" not in engine.ways):
        yield Plan("loop", 1)
    cpu = engine.device.type == "cpu" and "threads" in engine.ways
    if how == "threads" or (how == "auto" and cpu):
        yield Plan("threads", 1, max(1, min(workers or cores, n)))


def _fits(engine: Engine, n: int) -> int:
    """Return how many clients' working memory fits into half of the free memory."""
    rows = 8 * engine.task.d + 2 * engine.packing.width
    one = rows * engine.feed.dtype.itemsize + 1
    return int(max(1, min(n, devices.free(engine.device) // 2 // one)))


def _time(
    engine: Engine, plan: Plan, broadcast: Broadcast, rows: Tensor, cohort: np.ndarray
) -> float:
    """Measure seconds per client step; infinite if the plan does not run here."""
    engine.use(plan)

    def once() -> float:
        began = time.perf_counter()
        engine.run("local", broadcast, rows, cohort, 0, limit=_STEPS)
        if engine.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    try:
        once()
        took = sorted(once() for _ in range(3))[1]
    except Exception:  # no compiler, or a compiler that fails
        if plan.how != "compiled":
            raise
        return float("inf")
    return took / (_STEPS * len(cohort))


FILE = "state/rows.bin"  # path in the folder of a run


class Need(NamedTuple):
    """Upper bounds on the bytes that the client state of a run takes."""

    rows: int  # states of all clients that will ever take part
    shadow: int  # on disk: older states that the last checkpoint still needs
    models: int  # file of the clients' own models

    @property
    def disk(self) -> int:
        """Upper bound on the size of the state file."""
        return self.rows + self.shadow


def need(e: Experiment, n: int, row: int, model: int, finishes: bool) -> Need:
    """Compute the bytes that the state of n clients takes.

    A client that never takes part takes none.

    Args:
        e: Experiment of the run.
        n: Number of clients.
        row: Bytes of the state of one client.
        model: Bytes of one model.
        finishes: Whether every client works once more after the last round.
    """
    cohort = e.train.cohort or n
    visited = n if finishes else min(n, e.train.rounds * cohort)
    moved = visited  # clients that step between two checkpoints
    if e.checkpoint.every and not finishes:
        moved = min(visited, e.checkpoint.every * cohort)
    shadow = moved * row if e.output.checkpoint else 0
    models = (visited + 1) * model if e.output.personal and row else 0
    return Need(visited * row, shadow, models)


def settled(wish: str, rows: int, where: torch.device) -> str:
    """Choose `device`, `host` or `disk` for the client state.

    "auto" is the first of `device` and `host` with twice the room that the rows need,
    else `disk`.
    """
    if wish != "auto":
        return wish
    host = torch.device("cpu")
    for name, place in (("device", where), ("host", host)):
        if rows <= devices.free(place) // 2:
            return name
    return "disk"


def place(name: str, where: torch.device) -> torch.device | None:
    """Return the device that stores rows, or None for a file."""
    return {"device": where, "host": torch.device("cpu"), "disk": None}[name]


def file(path: Path, state_dir: str) -> Path:
    """Return the path of a run's state file, in the run's folder or in `state_dir`."""
    if not state_dir:
        return path / FILE
    whole = str(path.absolute()).encode()  # names of runs may be equal
    name = f"{path.name}-{hashlib.blake2b(whole, digest_size=6).hexdigest()}.rows"
    return Path(state_dir).expanduser().absolute() / name


def check(need: Need, rows: Path, path: Path) -> None:
    """Refuse a run, before any work, if the disk has too little room for its state.

    The present size of the state file `rows` counts as room. The clients' models are
    written to `path`.
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
    """Format a number of bytes for people, such as `8.9 GB`."""
    value, units = float(count), ["kB", "MB", "GB", "TB"]
    if value < 1000:
        return f"{count} bytes"
    while (value := value / 1000) >= 1000 and len(units) > 1:
        units.pop(0)
    return f"{value:.1f} {units[0]}"
