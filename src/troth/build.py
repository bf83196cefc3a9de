"""Build a federation from an experiment: data, network, clients and server."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from troth import lookup, progress, seeding
from troth.client.client import adversarial, compose, maker, tried
from troth.config.schema import Availability, Experiment
from troth.data import corrupt, load, preprocess
from troth.data.preprocess import Prepared
from troth.engine import plan as plans
from troth.engine.batches import Feed
from troth.engine.local_training import Engine, Plan
from troth.engine.population import Population
from troth.evaluation import chosen
from troth.federation import newcomers, sampling
from troth.federation.rounds import Federation
from troth.federation.samplers import There
from troth.federation.sampling import Attendance, everyone
from troth.networks import build as networks
from troth.networks import target_model, task, validate
from troth.networks.flat import Masks
from troth.networks.task import Loss
from troth.server import rules
from troth.types import Aim, Arrays, Client, Data, Refusal


def precision(e: Experiment) -> torch.dtype:
    """Return the dtype of a model's parameters."""
    return torch.float64 if e.train.precision == "float64" else torch.float32


def loss(e: Experiment) -> Loss | None:
    """Return the loss of the experiment; `None` if model or labels determine it."""
    if e.train.loss.name == "auto":
        return None
    function = lookup.find("loss", e.train.loss.name)
    return lambda f, y: lookup.call(function, e.train.loss.options, outputs=f, y=y)


def make_engine(
    e: Experiment,
    net: nn.Module,
    data: Data,
    arrays: Arrays,
    members: int,
    plan: Plan | None,
) -> Engine:
    """Build the engine, which trains the clients.

    Args:
        e: Experiment.
        net: Network.
        data: Data of all clients, on the device.
        arrays: Data set before it was split.
        members: Number of clients that can take part in rounds.
        plan: How clients are batched. `None` means one after another, until the fastest
            plan is measured.
    """
    feed = Feed(data, e.train.batch, e.train.drop_last, e.seed, precision(e))
    objective = task.Objective(net, arrays.classes, loss(e), feed.padded)
    progress.report("checking the network", 0, 0)
    objective.obstacles = validate.check(objective.net, data.x[:2])
    for augments in (e.train.augment, e.personalizer.augment or []):
        augment = compose(augments, arrays.scale)
        objective.check(tried(augment, feed.first()))
    share = (e.train.cohort or members) / members
    make = maker(e, arrays.scale, share, Masks(objective.net), feed.groups)
    w0, first = task.flatten(objective.net), plan or Plan("loop", 1)
    made = Engine(objective, make, feed, w0, e.train.precision, first)
    made.scores = chosen.chosen(e.evaluate.scores)
    several, taken = arrays.y.ndim == 2, made.client.columns
    chosen.tried(made.scores, arrays.classes, several, taken)
    if "adversarial" in lookup.asks(lookup.find("personalizer", e.personalizer.name)):
        clean = data.x[: len(arrays.x)]  # further rows are poisoned inputs
        adversarial(e.adversarial, made.task, arrays.scale).expect(clean)
    progress.report("", 0, 0)
    return made


def chooses(client: Client) -> bool:
    """Return whether a client uses validation data."""
    phases = (client.local, client.finish)
    looks = any(phase and phase.valid for phase in phases)
    return looks or client.settle is not None


def schedule(e: Experiment) -> Callable[[int], float]:
    """Return the function from the number of a round to the learning rate's factor."""
    part, rounds = e.train.schedule, e.train.rounds
    function = lookup.find("schedule", part.name)
    return lambda r: float(lookup.call(function, part.options, round_=r, rounds=rounds))


class Built(NamedTuple):
    """An experiment that is ready to train."""

    experiment: Experiment
    federation: Federation
    network: nn.Module
    data: Data
    hostile: np.ndarray  # [n] mask of malicious clients
    facts: dict[str, Any]  # facts for the run's record: clients, shape, classes, …
    prepared: Prepared | None = None  # how the inputs were prepared
    aim: Aim | None = None  # goal of the corruption, if any
    seconds: float = 0.0  # duration of `build`

    @property
    def need(self) -> plans.Need:
        """Largest number of bytes that client states may take."""
        f = self.federation
        return _need(self.experiment, f.engine, f.population.n, len(f.newcomers))

    @property
    def client_steps(self) -> float:
        """Number of client steps of the run, in rounds and after the last round.

        If clients may be absent, the number is an estimate.
        """
        f, steps = self.federation, self._in_rounds
        client, feed = f.engine.client, f.engine.feed
        if client.finish:
            steps += float(feed.steps(client.finish).sum())
        if not client.idle:
            rounds = newcomers.rounds(self.experiment, len(f.members))
            steps += float(feed.steps(client.local)[f.newcomers].sum()) * rounds
        return steps

    @property
    def _in_rounds(self) -> float:
        feed, f = self.federation.engine.feed, self.federation
        if f.turnout is not everyone:
            some = range(0, f.rounds, -(-f.rounds // 20))  # evenly spaced rounds
            each = (f.turnout(r, f.sample(r)).steps for r in some)
            done = sum(float(steps.sum()) for steps in each if steps is not None)
            return done * f.rounds / len(some)
        steps = feed.steps(f.engine.client.local).double()[f.members]
        train, n = self.experiment.train, len(f.members)
        if sampling.by_size(train.sampling) and train.cohort:
            sizes = feed.sizes[f.members]
            steps = steps * sizes / sizes.double().mean()
        return float(steps.mean()) * (train.cohort or n) * train.rounds


def device(name: str) -> torch.device:
    """Return the device of this name; "auto" means a GPU if there is one, else the CPU.

    Raise Refusal if the device is not available.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return torch.device(next((d for d, yes in there.items() if yes), "cpu"))
    kind = name.split(":")[0]
    if kind != "cpu" and not there.get(kind, False):
        has = ", ".join(["cpu", *(d for d, yes in there.items() if yes)])
        raise Refusal(f"device '{name}' is not available; this machine has: {has}")
    if name.startswith("cuda:"):
        torch.cuda.set_device(name)  # for streams, graphs and kernels
    return torch.device(name)


def build(
    experiment: Experiment, *, data_dir: str | None = None, plan: Plan | None = None
) -> Built:
    """Load and split the data, and build all parts of a run.

    Args:
        experiment: Experiment that `config.reader.from_dict` has checked.
        data_dir: Folder that is searched first for data sets. `None` means that only
            the default folders are searched.
        plan: How clients are batched, if known from an earlier run. `None` means that
            the fastest plan is measured.
    """
    began, e, where = time.monotonic(), experiment, device(experiment.engine.device)
    progress.report("reading data", 0, 0)
    arrays, shards, facts = load.deal(e, data_dir)
    n = len(shards.train)
    hostile = adversaries(e, n)
    late = newcomers.drawn(e, hostile)
    check_cohort(e, n, len(late))
    shards = newcomers.fewer(e, shards, late)
    preprocess.check(e, arrays)
    dtype = precision(e)
    seen = arrays.x[:0]
    if e.model.normalize == "pixel":
        theirs = [shards.train[k] for k in newcomers.others(n, late)]
        seen = arrays.x[np.unique(np.concatenate(theirs))]
    shape = arrays.x.shape[1:]
    net = networks.network(e, shape, arrays.classes, seen, arrays.scale)
    net, facts = net.to(where, dtype), facts | networks.identity(e.model, net)
    how = corrupt.corruption(e.corruption, arrays, hostile)
    aim = corrupt.aim(e.corruption, arrays)
    raw = preprocess.Raw(arrays, shards, dtype, where, hostile, how, e.seed)
    data, prepared, redraw = preprocess.deal(e.features, raw, late)
    engine = make_engine(e, net, data, arrays, n - len(late), plan)
    check_validation(engine, data)
    net, w0 = engine.objective.net, task.flatten(engine.objective.net)
    need = _need(e, engine, n, len(late))
    kept = plans.settled(e.engine.store, need.rows, where)
    others = _begun(e, engine, w0, hostile)
    population = Population(n, engine.start(w0), plans.place(kept, where), others)
    federation = _federation(e, engine, population, w0, hostile, late)
    facts |= {
        "clients": n,
        "malicious": int(hostile.sum()),
        **({"newcomers": len(late)} if len(late) else {}),
        "shape": list(arrays.x.shape[1:]),
        "classes": arrays.classes,
        **({"multi_label": True} if arrays.y.ndim == 2 else {}),
        "scale": arrays.scale,
        "parameters": engine.task.d - engine.task.tail,
        "device": str(where),
        "store": kept,
        **({"state_bytes": need.disk} if population.on_disk else {}),
        **networks.facts(e.model, net),
    }
    facts |= prepared.facts() if prepared else {}
    foes = rules.expected(e, n - len(late), int(hostile.sum()))
    facts |= rules.facts(e, foes)
    federation.redraw = redraw
    built = Built(e, federation, net, data, hostile, facts, prepared, aim)
    if plan is None:
        members = federation.members
        some = _sampler(e, engine, members, hostile[members])(0)  # first cohort
        engine.use(_fastest(built, some))
    return built._replace(seconds=time.monotonic() - began)


def _fastest(built: Built, cohort: np.ndarray) -> Plan:
    """Return the fastest plan (how clients are batched), by measurement or a cache."""
    e, f = built.experiment, built.federation
    given = f.engine, f.broadcast, f.population, cohort, built.client_steps
    wish = e.engine.how, e.engine.chunk, e.engine.workers, e.engine.threads
    work = e.solver, e.personalizer, e.regularizer, e.adversarial
    more = e.train.optimizer, e.train.loss, e.train.augment
    return plans.choose(*given, *wish, about=repr((work, more)))


def check_validation(engine: Engine, data: Data) -> None:
    """Raise Refusal if the personalizer needs validation data and no client has any."""
    if chooses(engine.client) and not len(data.valid.y):
        raise Refusal(
            "the personalizer needs validation data, and no client has any; give "
            "partition.split a second share above 0, such as [0.72, 0.08, 0.2], or "
            "with split = 'given' set partition.valid, such as 0.1"
        )


def check_cohort(e: Experiment, n: int, late: int) -> None:
    """Raise Refusal if a cohort is larger than the number n − late of its clients."""
    if e.train.cohort > n - late:
        who = f"{n} clients there are"
        who = f"{n - late} of {n} clients that are no newcomers" if late else who
        raise Refusal(
            f"train.cohort = {e.train.cohort} is more than the {who}; "
            f"set it to at most {n - late}, or to 0 for all"
        )


def adversaries(e: Experiment, n: int) -> np.ndarray:
    """Return the mask [n] of malicious clients."""
    mask = np.zeros(n, dtype=bool)
    count = e.adversary.number(n)
    if e.adversary.clients is not None:
        mask[e.adversary.clients] = True
    else:
        mask[seeding.choose(e.seed, "adversary", 0, n, count)] = True
    return mask


def _need(e: Experiment, engine: Engine, n: int, late: int) -> plans.Need:
    """Return the bytes of the states of all clients, including newcomers."""
    number, finishes = engine.feed.dtype.itemsize, engine.client.finish is not None
    row, model = engine.packing.width * number, engine.task.d * number
    found = plans.need(e, n - late, row, model, finishes)
    more = late * model if found.models else 0
    return found._replace(rows=found.rows + late * row, models=found.models + more)


def _begun(
    e: Experiment, engine: Engine, w0: Tensor, hostile: np.ndarray
) -> tuple[np.ndarray, Tensor] | None:
    """Return the malicious clients and their initial state, by `adversary.start`.

    Return `None` if this setting is not set.
    """
    if not e.adversary.start:
        return None
    model = target_model.read(e.adversary.start, len(w0)).to(w0)
    row = engine.start(model)
    if not len(row):
        raise Refusal(
            f"adversary.start needs clients with a personal model, and personalizer "
            f"'{e.personalizer.name}' keeps none; remove adversary.start"
        )
    return np.flatnonzero(hostile), row


def _federation(
    e: Experiment,
    engine: Engine,
    population: Population,
    w0: Tensor,
    hostile: np.ndarray,
    late: np.ndarray,
) -> Federation:
    n = population.n - len(late)
    every = rules.of(e, rules.expected(e, n, int(hostile.sum())))
    rules.tried(every, w0, e.train.cohort or n)
    scale, rounds = schedule(e), e.train.rounds
    scale(0)  # raises Refusal if the schedule is not valid
    attendance = _attendance(e, engine, late)
    there = attendance.there if attendance and attendance.varies else None
    members = newcomers.others(population.n, late)
    return Federation(
        engine,
        population,
        every,
        w0,
        rounds=rounds,
        sample=_sampler(e, engine, members, hostile[members], there),
        scale=scale,
        hostile=hostile,
        seed=e.seed,
        turnout=attendance.turnout if attendance else everyone,
        newcomers=late,
    )


def _attendance(e: Experiment, engine: Engine, late: np.ndarray) -> Attendance | None:
    """Return the availability of clients; `None` if all are always available."""
    if e.availability == Availability():
        return None
    work = engine.feed.steps(engine.client.local).numpy()
    if len(late):  # the median member defines the deadline
        work = work.astype(np.float64)
        work[late] = np.median(work[newcomers.others(len(work), late)])
    return Attendance(e.availability, e.seed, work, e.train.rounds)


def _sampler(
    e: Experiment,
    engine: Engine,
    members: np.ndarray,
    hostile: np.ndarray,  # of the members
    there: There | None = None,
) -> Callable[[int], np.ndarray]:
    """Return the function that samples the cohort of a round among the members.

    Members are all clients that are not newcomers.
    """
    size, how = engine.feed.sizes.numpy()[members], e.train.sampling
    here = None if there is None else lambda r, some: there(r, members[some])
    cohort = e.train.cohort or len(members)
    draw = sampling.named(how, e.seed, cohort, size, here, hostile)
    return lambda r: members[draw(r)]
