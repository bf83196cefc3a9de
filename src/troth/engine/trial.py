"""Measure plans on a few clients and steps, and store choices in the user's cache.

A plan says how clients are batched and computed. Plans are measured alternately, and
those that are clearly slower are not measured again. Each choice is a small JSON file,
whose name is a digest of everything that affects which plan is fastest. The environment
variable `TROTH_PLANS` sets another folder for these files.
"""

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from troth import __version__, devices, files, progress
from troth.engine.local_training import Engine, Plan
from troth.engine.population import Population
from troth.types import Broadcast

_STEPS = 3  # number of steps of a client in a measurement
_REPEATS, _MOST = 3, 10  # number of measurements of a plan: usual, and at most if short
_BRIEF = 0.3  # measurements are short if they take fewer seconds in all
_BETTER = 0.95  # a later plan is chosen only if it takes less than this × the time
_CLEARLY = 1.5  # a candidate so many times slower than the best is not measured again
_ENOUGH = {"cpu": 1.5}  # seconds after which no measurement begins
_ENOUGH_ON_GPU = 4.0
_HEAVY = 1e-3  # seconds of a client step from which on one client may fill a GPU


class Choice(NamedTuple):
    """A plan that was chosen by measurement."""

    plan: Plan
    seconds: float  # for a step of one client
    compiled: bool = False  # whether the compiler was tried


class Trial:
    """Measurements of plans on some clients of a cohort.

    The results of the steps are discarded. The clients with the most steps are
    measured, so that no client is idle in any step.
    """

    def __init__(
        self,
        engine: Engine,
        broadcast: Broadcast,
        population: Population,
        cohort: np.ndarray,
    ) -> None:
        """Set up the measurements; their time limit begins now."""
        _, counts = engine.steps("local", cohort, None)
        order = counts.argsort(descending=True, stable=True).numpy()
        self.engine, self.n = engine, len(cohort)
        self.steps = max(1, min(_STEPS, int(counts.max())))
        self._cohort, self._population = cohort[order], population
        self.work = 0.0  # processor seconds of a step of one client
        self._broadcast, self._on_cpu = broadcast, engine.device.type == "cpu"
        enough = _ENOUGH.get(engine.device.type, _ENOUGH_ON_GPU)
        self._ends, self._begun = time.monotonic() + enough, 0

    def once(self, plan: Plan) -> float:
        """Train for some steps with a plan; return the seconds of a step of one client.

        On a CPU, each worker trains one chunk. Otherwise, all clients of the cohort are
        trained.
        """
        size = min(self.n, plan.chunk * plan.workers) if self._on_cpu else self.n
        ids = self._cohort[:size]
        rows = self._population.read(ids)
        if plan != self.engine.plan:
            self.engine.use(plan)
        began, work = time.perf_counter(), time.process_time()
        self.engine.run("local", self._broadcast, rows, ids, 0, limit=self.steps)
        if self.engine.device.type == "cuda":
            torch.cuda.synchronize()
        self.work = (time.process_time() - work) / (self.steps * size)
        return (time.perf_counter() - began) / (self.steps * size)

    def begin(self, plan: Plan, total: int) -> float:
        """Report a new candidate and measure it once, which also traces it."""
        self._begun += 1
        progress.report(f"measuring plan {self._begun} of {total}", 0, 0)
        return self.once(plan)

    def fastest(self, plans: list[Plan], ready: int = 0) -> Choice:
        """Measure plans and return the fastest; among about equal ones, the first.

        On a CPU, plans take turns, so that a busy moment affects all of them, and the
        shortest of their times counts. Elsewhere, they follow each other, because the
        graphs of several plans would take memory at the same time. There, clients one
        by one are measured even if it is late, if a client step takes long: a single
        client may fill the GPU.

        Args:
            plans: Candidates, at least one.
            ready: Number of plans at the beginning that have run already.
        """
        times = dict.fromkeys(plans, float("inf"))
        groups = [plans] if self._on_cpu else [[plan] for plan in plans]
        for group in groups:
            best_time = min(times.values())
            heavy = group[0].chunk == 1 and _HEAVY <= best_time < float("inf")
            if self._late() and best_time < float("inf") and not heavy:
                continue
            for plan in group:
                if plan not in plans[:ready]:
                    self.begin(plan, len(plans))
            self._take_turns(group, times)
        best = plans[0]
        for plan in plans[1:]:
            if times[plan] < _BETTER * times[best]:
                best = plan
        return Choice(best, times[best])

    def _take_turns(self, plans: list[Plan], times: dict[Plan, float]) -> None:
        """Measure plans alternately; store the shortest time of each in `times`."""
        began = time.monotonic()
        for k in range(_MOST):
            for plan in plans:
                if k == 0 or times[plan] <= _CLEARLY * min(times.values()):
                    times[plan] = min(times[plan], self.once(plan))
            short = k + 1 < _REPEATS or time.monotonic() - began < _BRIEF
            if self._late() or not short:
                return

    def compiled(self, choice: Choice) -> Choice:
        """Compile a plan, and return the faster one of the two."""
        plan = choice.plan._replace(how="compiled")
        progress.report("compiling", 0, 0)
        seconds = (
            min(self.once(plan) for _ in range(_REPEATS)) if self.runs(plan) else 0
        )
        if 0 < seconds < _BETTER * choice.seconds:
            return Choice(plan, seconds, compiled=True)
        return choice._replace(compiled=True)

    def runs(self, plan: Plan) -> bool:
        """Return whether a plan works; a compiled one needs a C++ compiler."""
        try:
            self.once(plan)
        except Exception:
            return False
        return True

    def _late(self) -> bool:
        return time.monotonic() > self._ends


def folder() -> Path:
    """Return the folder of the stored choices."""
    given = os.environ.get("TROTH_PLANS")
    return Path(given).expanduser() if given else files.cache() / "plans"


def facts(
    engine: Engine, clients: int, steps: int, wish: Plan, about: str
) -> dict[str, Any]:
    """Return everything that affects which plan is fastest.

    Args:
        engine: Engine with the network, the data and the client's functions.
        clients: Number of clients in a round.
        steps: Largest number of steps of a client in a measurement.
        wish: Settings of the user; "auto" and 0 mean that they are chosen.
        about: Further settings that affect the speed.
    """
    phase, feed = engine.client.local, engine.feed
    return {
        "versions": [__version__, torch.__version__],
        "device": devices.name(engine.device),
        "cores": devices.cores(),
        "wish": [wish.how, wish.chunk, wish.workers],
        "network": [repr(engine.objective.net), engine.task.d],
        "numbers": [str(feed.dtype), engine.precision, feed.padded],
        "client": about,
        "row": [engine.packing.width, phase.valid, phase.by_group],
        "data": [list(feed.data.x.shape[1:]), str(feed.data.x.dtype), feed.batch],
        "round": [clients, steps],
    }


def read(facts: dict[str, Any]) -> Choice | None:
    """Return the stored choice, or `None` if there is no valid one."""
    try:
        stored = json.loads(_file(facts).read_text("utf-8"))
        how, chunk, workers = stored["how"], stored["chunk"], stored["workers"]
        seconds, compiled = float(stored["seconds"]), stored["compiled"] is True
    except (OSError, ValueError, TypeError, KeyError):
        return None
    valid = how in ("loop", "vmap", "compiled", "threads")
    valid = valid and all(type(k) is int and k >= 1 for k in (chunk, workers))
    return Choice(Plan(how, chunk, workers), seconds, compiled) if valid else None


def write(facts: dict[str, Any], choice: Choice) -> None:
    """Store a choice; if the file cannot be written, do nothing."""
    plan = choice.plan._asdict()
    plan.pop("threads")  # depends on the load, and is chosen in every run
    stored = plan | {"seconds": choice.seconds, "compiled": choice.compiled}
    text = json.dumps(stored | {"facts": facts}, indent=1)
    with contextlib.suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        files.put(_file(facts), text.encode())


def _file(facts: dict[str, Any]) -> Path:
    text = json.dumps(facts, sort_keys=True).encode()
    return folder() / f"{hashlib.blake2b(text, digest_size=12).hexdigest()}.json"
