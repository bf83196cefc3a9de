"""Experiment → ready functions: the only place that puts parts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from troth import (
    augmenting,
    corrupting,
    lifting,
    lookup,
    networks,
    plans,
    preparing,
    rulebook,
    seeding,
    store,
    supply,
    tasks,
)
from troth.availability import Attendance, everyone
from troth.beside import steps_of
from troth.clients import maker
from troth.engine import Engine, Plan
from troth.evaluation import Aim
from troth.federation import Federation
from troth.feed import Feed
from troth.masks import Masks
from troth.objectives import Loss
from troth.population import Population
from troth.preparing import Prepared
from troth.sampling import There, sampler
from troth.sections import Availability, Experiment
from troth.types import Data, Phase, Refusal


class Built(NamedTuple):
    """An experiment, ready to train."""

    experiment: Experiment
    federation: Federation
    network: nn.Module
    data: Data
    hostile: np.ndarray  # [n]
    facts: dict[str, Any]  # what it is about: clients, shape, classes, parameters …
    prepared: Prepared | None = None  # how the inputs were
    aim: Aim | None = None  # what the corruption is after

    @property
    def need(self) -> store.Need:
        """What the personal state takes at most."""
        f = self.federation
        return _need(self.experiment, f.engine, f.population.n)

    @property
    def client_steps(self) -> float:
        """How many steps of one client the run takes, those after the last round too.

        Estimated where some fail.
        """
        engine = self.federation.engine
        last = engine.client.finish
        after = float(_steps(last, engine.feed).sum()) if last else 0.0
        return self._in_rounds + after

    @property
    def _in_rounds(self) -> float:
        feed, f = self.federation.engine.feed, self.federation
        if f.turnout is not everyone:
            some = range(0, f.rounds, -(-f.rounds // 20))  # rounds, evenly spread
            each = (f.turnout(r, f.sample(r)).steps for r in some)
            done = sum(float(steps.sum()) for steps in each if steps is not None)
            return done * f.rounds / len(some)
        steps = _steps(f.engine.client.local, feed).double()
        train, n = self.experiment.train, f.population.n
        if train.sampling == "size" and train.cohort:
            steps = steps * feed.sizes / feed.sizes.double().mean()
        return float(steps.mean()) * (train.cohort or n) * train.rounds


def _steps(phase: Phase, feed: Feed) -> Tensor:
    """Of every client in a phase, [n]."""
    each = [steps_of(b, feed.per_epoch) for b in phase.budgets]
    return torch.stack(each).amax(0)


def device(name: str) -> torch.device:
    """The device of that name; `auto` takes the fastest there is."""
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return torch.device(next((d for d, yes in there.items() if yes), "cpu"))
    kind = name.split(":")[0]
    if kind != "cpu" and not there.get(kind, False):
        has = ", ".join(["cpu", *(d for d, yes in there.items() if yes)])
        raise Refusal(f"device '{name}' is not here; this machine has: {has}")
    return torch.device(name)


def build(
    experiment: Experiment, *, data_dir: str | None = None, plan: Plan | None = None
) -> Built:
    """Load the data, deal it, and make everything that a run needs.

    Args:
        experiment: checked already (`config.from_dict`).
        data_dir: where data sets are looked for first.
        plan: how clients step, from an earlier run; None measures.
    """
    e, where = experiment, device(experiment.engine.device)
    arrays, shards, facts = supply.deal(e, data_dir)
    n = len(shards.train)
    if e.train.cohort > n:
        raise Refusal(
            f"train.cohort = {e.train.cohort} is more than the {n} clients there are; "
            f"set it to at most {n}, or to 0 for all"
        )
    preparing.check(e, arrays)
    hostile = adversaries(e, n)
    dtype = torch.float64 if e.train.precision == "float64" else torch.float32
    seen = arrays.x[:0]
    if e.model.normalise == "pixel":
        seen = arrays.x[np.unique(np.concatenate(shards.train))]
    shape = arrays.x.shape[1:]
    net = networks.network(e, shape, arrays.classes, seen, arrays.scale)
    net = net.to(where, dtype)
    how = corrupting.corruption(e.corruption, arrays, hostile)
    aim = corrupting.aim(e.corruption, arrays)
    data, prepared, redraw = preparing.deal(
        e.features, arrays, shards, dtype, where, hostile, how, e.seed
    )
    feed = Feed(data, e.train.batch, e.train.drop_last, e.seed, dtype)
    objective = tasks.Objective(net, arrays.classes, loss(e), feed.padded)
    lifting.check(objective.net, data.x[:2])
    for augments in (e.train.augment, e.personalizer.augment or []):
        augment = augmenting.compose(augments, arrays.scale)
        objective.check(augmenting.tried(augment, feed.first()))
    w0 = tasks.flatten(objective.net)
    share = (e.train.cohort or n) / n
    make = maker(e, arrays.scale, share, Masks(objective.net))
    first = plan or Plan("loop", 1)
    engine = Engine(objective, make, feed, w0, e.train.precision, first)
    _check_validation(engine, data)
    need = _need(e, engine, n)
    kept = store.choose(e.engine.store, need.rows, where)
    population = Population(n, engine.start(w0), store.place(kept, where))
    federation = _federation(e, engine, population, w0, hostile, n)
    facts |= {
        "clients": n,
        "malicious": int(hostile.sum()),
        "shape": list(arrays.x.shape[1:]),
        "classes": arrays.classes,
        **({"multi_label": True} if arrays.y.ndim == 2 else {}),
        "scale": arrays.scale,
        "parameters": engine.task.d - engine.task.tail,
        "device": str(where),
        "store": kept,
        **({"state_bytes": need.disk} if population.on_disk else {}),
        **networks.facts(e.model, objective.net),
    }
    facts |= prepared.facts() if prepared else {}
    facts |= rulebook.facts(e, rulebook.expected(e, n, int(hostile.sum())))
    federation.redraw = redraw
    built = Built(e, federation, objective.net, data, hostile, facts, prepared, aim)
    if plan is None:
        _plan(built)
    return built


def _check_validation(engine: Engine, data: Data) -> None:
    """Refuse to look at validation data where no client has any."""
    phases = (engine.client.local, engine.client.finish)
    looks = engine.client.settle or any(phase and phase.valid for phase in phases)
    if looks and not len(data.valid.y):
        raise Refusal(
            "the personalizer chooses by validation data, and no client has any; give "
            "partition.split a second share above 0, such as [0.72, 0.08, 0.2], or "
            "with split = 'given' set partition.valid, such as 0.1"
        )


def loss(e: Experiment) -> Loss | None:
    """The loss that the experiment names; None leaves the choice to the model."""
    if e.train.loss.name == "auto":
        return None
    function = lookup.find("loss", e.train.loss.name)
    return lambda f, y: lookup.call(function, e.train.loss.options, outputs=f, y=y)


def adversaries(e: Experiment, n: int) -> np.ndarray:
    """Which of n clients are hostile: a mask."""
    mask = np.zeros(n, dtype=bool)
    count = e.adversary.number(n)
    if e.adversary.clients is not None:
        mask[e.adversary.clients] = True
    else:
        mask[seeding.choose(e.seed, "adversary", 0, n, count)] = True
    return mask


def _need(e: Experiment, engine: Engine, n: int) -> store.Need:
    """What the state of all clients that will be asked takes."""
    number, finishes = engine.feed.dtype.itemsize, engine.client.finish is not None
    row, model = engine.packing.width * number, engine.task.d * number
    return store.need(e, n, row, model, finishes)


def _federation(
    e: Experiment,
    engine: Engine,
    population: Population,
    w0: Tensor,
    hostile: np.ndarray,
    n: int,
) -> Federation:
    every = rulebook.of(e, rulebook.expected(e, n, int(hostile.sum())))
    rulebook.tried(every, w0, e.train.cohort or n)
    schedule = lookup.find("schedule", e.train.schedule.name)
    options, rounds = e.train.schedule.options, e.train.rounds
    lookup.call(schedule, options, round_=0, rounds=rounds)  # refuses before the start
    attendance = _attendance(e, engine)
    there = attendance.there if attendance and attendance.varies else None
    return Federation(
        engine,
        population,
        every,
        w0,
        rounds=rounds,
        sample=_sampler(e, engine, n, there),
        scale=lambda r: float(lookup.call(schedule, options, round_=r, rounds=rounds)),
        hostile=hostile,
        seed=e.seed,
        turnout=attendance.turnout if attendance else everyone,
    )


def _attendance(e: Experiment, engine: Engine) -> Attendance | None:
    """How clients come and go; None where all are there and do all of their work."""
    if e.availability == Availability():
        return None
    work = _steps(engine.client.local, engine.feed).numpy()
    return Attendance(e.availability, e.seed, work, e.train.rounds)


def _sampler(
    e: Experiment, engine: Engine, n: int, there: There | None = None
) -> Callable[[int], np.ndarray]:
    size = engine.feed.sizes.numpy() if e.train.sampling == "size" else None
    return sampler(e.seed, n, e.train.cohort or n, size, there)


def _plan(built: Built) -> None:
    """Measure how the clients step best, and go by that."""
    f, wish = built.federation, built.experiment.engine
    whole = _sampler(built.experiment, f.engine, f.population.n)  # whoever is there
    chosen = plans.choose(
        f.engine,
        f.broadcast,
        f.population,
        whole(0),
        built.client_steps,
        wish.how,
        wish.chunk,
        wish.workers,
    )
    f.engine.use(chosen)
