"""Experiment, network and data → what steps the clients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from troth import lookup
from troth.client import augmenting
from troth.client.client import adversarial, maker
from troth.config.schema import Experiment
from troth.engine.batches import Feed
from troth.engine.engine import Engine, Plan
from troth.networks import task, validate
from troth.networks.masks import Masks
from troth.networks.objective import Loss
from troth.types import Arrays, Client, Data


def precision(e: Experiment) -> torch.dtype:
    """The type of the numbers that a model has."""
    return torch.float64 if e.train.precision == "float64" else torch.float32


def loss(e: Experiment) -> Loss | None:
    """The loss that the experiment names; None leaves the choice to the model."""
    if e.train.loss.name == "auto":
        return None
    function = lookup.find("loss", e.train.loss.name)
    return lambda f, y: lookup.call(function, e.train.loss.options, outputs=f, y=y)


def engine(
    e: Experiment,
    net: nn.Module,
    data: Data,
    arrays: Arrays,
    members: int,
    plan: Plan | None,
) -> Engine:
    """What steps the clients of an experiment.

    Args:
        e: the experiment.
        net: its network, with the numbers to begin with.
        data: what the clients hold.
        arrays: says how many classes there are, and what stands for 1.
        members: how many clients take part.
        plan: how they step; None: not known yet.
    """
    feed = Feed(data, e.train.batch, e.train.drop_last, e.seed, precision(e))
    objective = task.Objective(net, arrays.classes, loss(e), feed.padded)
    validate.check(objective.net, data.x[:2])
    for augments in (e.train.augment, e.personalizer.augment or []):
        augment = augmenting.compose(augments, arrays.scale)
        objective.check(augmenting.tried(augment, feed.first()))
    share = (e.train.cohort or members) / members
    make = maker(e, arrays.scale, share, Masks(objective.net), feed.groups)
    w0, first = task.flatten(objective.net), plan or Plan("loop", 1)
    made = Engine(objective, make, feed, w0, e.train.precision, first)
    if "adversarial" in lookup.asks(lookup.find("personalizer", e.personalizer.name)):
        clean = data.x[: len(arrays.x)]  # hostile clients' own follow
        adversarial(e.adversarial, made.task, arrays.scale).expect(clean)
    return made


def chooses(client: Client) -> bool:
    """Whether a client looks at its validation data."""
    phases = (client.local, client.finish)
    looks = any(phase and phase.valid for phase in phases)
    return looks or client.settle is not None


def schedule(e: Experiment) -> Callable[[int], float]:
    """Round → factor on every learning rate."""
    part, rounds = e.train.schedule, e.train.rounds
    function = lookup.find("schedule", part.name)
    return lambda r: float(lookup.call(function, part.options, round_=r, rounds=rounds))
