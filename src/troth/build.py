"""Experiment → ready functions: the only place that puts parts together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from troth import (
    dealing,
    lifting,
    lookup,
    memory,
    networks,
    plans,
    rules,
    seeding,
    supply,
    tasks,
)
from troth.beside import steps_of
from troth.clients import maker
from troth.engine import Engine, Plan
from troth.federation import Federation, Rules, sampler
from troth.feed import Feed
from troth.parts import Part
from troth.population import Population
from troth.sections import Experiment
from troth.types import Broadcast, Data, Messages, Refusal


class Built(NamedTuple):
    """An experiment, ready to train."""

    experiment: Experiment
    federation: Federation
    network: nn.Module
    data: Data
    hostile: np.ndarray  # [n]
    facts: dict[str, Any]  # what it is about: clients, shape, classes, parameters …

    @property
    def client_steps(self) -> float:
        """How many steps of one client the run takes."""
        feed, f = self.federation.engine.feed, self.federation
        steps = _steps(f.engine, feed).double()
        train, n = self.experiment.train, f.population.n
        if train.sampling == "size" and train.cohort:
            steps = steps * feed.sizes / feed.sizes.double().mean()
        return float(steps.mean()) * (train.cohort or n) * train.rounds


def _steps(engine: Engine, feed: Feed) -> Tensor:
    each = [steps_of(b, feed.per_epoch) for b in engine.client.local.budgets]
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
    hostile = adversaries(e, n)
    dtype = torch.float64 if e.train.precision == "float64" else torch.float32
    rows = np.unique(np.concatenate(shards.train))
    net = networks.network(
        e, arrays.x.shape[1:], arrays.classes, arrays.x[rows], arrays.scale
    )
    net = net.to(where, dtype)
    data = dealing.deal(
        arrays, shards, dtype, where, hostile, corruption(e, arrays.classes), e.seed
    )
    example = data.x[: min(2, len(data.x))]
    lifting.check(net, example)
    objective = tasks.Objective(net, arrays.classes)
    feed = Feed(data, e.train.batch, e.train.drop_last, e.seed, dtype)
    w0 = tasks.flatten(net)
    engine = Engine(
        objective, maker(e), feed, w0, e.train.precision, plan or Plan("loop", 1)
    )
    population = Population(n, engine.start(w0), _store(e, engine, n, where))
    federation = _federation(e, engine, population, w0, hostile, n)
    facts |= {
        "clients": n,
        "malicious": int(hostile.sum()),
        "shape": list(arrays.x.shape[1:]),
        "classes": arrays.classes,
        "scale": arrays.scale,
        "parameters": engine.task.d,
        "device": str(where),
    }
    built = Built(e, federation, net, data, hostile, facts)
    if plan is None:
        _plan(built)
    return built


def adversaries(e: Experiment, n: int) -> np.ndarray:
    """Which of n clients are hostile: a mask."""
    mask = np.zeros(n, dtype=bool)
    count = e.adversary.number(n)
    if e.adversary.clients is not None:
        mask[e.adversary.clients] = True
    else:
        mask[seeding.choose(e.seed, "adversary", 0, n, count)] = True
    return mask


def corruption(e: Experiment, classes: int) -> dealing.Corrupt | None:
    """What hostile clients do to their data."""
    if e.corruption.name == "none":
        return None
    function = lookup.find("corruption", e.corruption.name)
    return lambda x, y, key: lookup.call(
        function, e.corruption.options, x=x, y=y, classes=classes, key=key
    )


def _store(e: Experiment, engine: Engine, n: int, where: torch.device) -> torch.device:
    """Where personal state is kept: on the device if it fits in half of it."""
    if e.engine.store != "auto":
        return where if e.engine.store == "device" else torch.device("cpu")
    whole = n * engine.packing.width * engine.feed.dtype.itemsize
    return where if whole < memory.free(where) // 2 else torch.device("cpu")


def _federation(
    e: Experiment,
    engine: Engine,
    population: Population,
    w0: Tensor,
    hostile: np.ndarray,
    n: int,
) -> Federation:
    def rule(kind: str, part: Part) -> rules.Rule:
        return rules.lift(kind, part.name, part.options)

    first = rules.lift("filter", "drop_invalid", {})
    every = Rules(
        None if e.attack.name == "none" else rule("attack", e.attack),
        (first, *(rule("filter", part) for part in e.filter)),
        rule("aggregator", e.aggregator),
        rule("server", e.server),
    )
    _probe(every, w0, e.train.cohort or n)
    schedule = lookup.find("schedule", e.train.schedule.name)
    options, rounds = e.train.schedule.options, e.train.rounds
    lookup.call(schedule, options, round_=0, rounds=rounds)  # refuses before the start
    size = engine.feed.sizes.numpy() if e.train.sampling == "size" else None
    return Federation(
        engine,
        population,
        every,
        w0,
        rounds=rounds,
        sample=sampler(e.seed, n, e.train.cohort or n, size),
        scale=lambda r: float(lookup.call(schedule, options, round_=r, rounds=rounds)),
        hostile=hostile,
        seed=e.seed,
    )


def _probe(every: Rules, w0: Tensor, cohort: int) -> None:
    """Call each rule once on nothing, so that it refuses before anything is written."""
    zero = w0.new_zeros
    broadcast = Broadcast(zero(2), zero(0), w0.new_ones(()))
    loss, client = zero(cohort), torch.arange(cohort, device=w0.device)
    messages = Messages(zero(cohort, 2), zero(cohort, 0), loss, client + 1, client)
    key = torch.zeros((), dtype=torch.long, device=w0.device)
    common: dict[str, Any] = {"broadcast": broadcast, "key": key, "round_": 0}
    sent: dict[str, Any] = {"messages": messages, "loss": loss}
    given: list[tuple[rules.Rule | None, dict[str, Any]]] = [
        (every.attack, {"messages": messages, "hostile": client < 0}),
        *((rule, sent) for rule in every.filters),
        (every.aggregator, sent),
        (every.server, {"step": zero(2)}),
    ]
    for rule, more in given:
        if rule is not None:
            rule(rules.no_memory(w0.device), **common, **more)


def _plan(built: Built) -> None:
    """Measure how the clients step best, and go by that."""
    f, wish = built.federation, built.experiment.engine
    chosen = plans.choose(
        f.engine,
        f.broadcast,
        f.population,
        f.sample(0),
        built.client_steps,
        wish.how,
        wish.chunk,
        wish.workers,
    )
    f.engine.use(chosen)
