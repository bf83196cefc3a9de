"""The attacked federations, and the evaluation of one during training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.build import Built, build
from troth.config import reader
from troth.poison import goal
from troth.runs import train

Tree = dict[str, Any]
AUTHORS = {"name": "adam", "lr": 0.02, "beta2": 0.999, "tau": 1e-8}
"""The server of the authors' code, without its decay."""


def digits(
    honest: int, size: int, regularizer: str, *, rounds: int, **more: Any
) -> Tree:
    """Return a linear model on MNIST; users draw their own examples (Section 5.2).

    Args:
        honest: number of honest users.
        size: number of images that each user draws of 70,000; six of seven are for
            training.
        regularizer: R; λ is 1 in the paper's units.
        rounds: epochs of the paper, each one step on all data.
        more: sections that replace those here.
    """
    lam = 2.0 if regularizer == "l2sq" else 1.0
    tree = {
        "seed": 999,
        "data": {"name": "mnist"},
        "partition": {
            "name": "draws",
            "sizes": [size] * (honest + 1),
            "split": "given",
        },
        "model": {"name": "linear"},
        "train": {"rounds": rounds, "batch": 0, "steps": 1, "lr": 0.02},
        "personalizer": {
            "name": "coupled",
            "lam": lam,
            "report": "before",
            "optimizer": "adam",
        },
        "regularizer": regularizer,
        "aggregator": "sum",
        "server": AUTHORS,
        "adversary": {"clients": [honest]},
        "corruption": "none",
        "evaluate": {"every": rounds},
    }
    return {**tree, **more}


def made(tree: Tree, device: str) -> Built:
    """Build the federation of an experiment, ready to train."""
    tree = {**tree, "engine": {"device": device}}
    return build(reader.from_dict(tree), plan=train.UNMEASURED)


def target(tree: Tree, file: Path, device: str) -> goal.Goal:
    """Return θ†; as in the paper, it is trained on all data with labels y + 1."""
    built = made({**tree, "attack": "none"}, device)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        found = goal.goal(built, "shift_labels", 100, 0.02).target
        np.save(file, found.numpy())
    return goal.Goal(torch.from_numpy(np.load(file)), "shift_labels")


def watched(built: Built, aim: goal.Goal, every: int) -> dict[str, list[float]]:
    """Train, and record the distance to the target and accuracies at regular rounds.

    Returns:
        rounds; the distance of ρ, its norm, its accuracy by true and by wanted labels,
        and the same two accuracies for the mean of the benign clients' own models.
    """
    f = built.federation
    names = ("round", "distance", "norm", "accuracy", "aimed")
    more = ("own_distance", "own_accuracy", "own_aimed")
    found: dict[str, list[float]] = {name: [] for name in (*names, *more)}

    def look(round_: int) -> None:
        rho = f.broadcast.w.double().cpu()
        row = [round_, far(rho, aim), float(rho.norm())]
        row += goal.judged(built, aim, rho)
        own = honest(built)
        each = np.array([goal.judged(built, aim, theta) for theta in own[:3]])
        near = np.mean([far(theta, aim) for theta in own])
        for name, value in zip(found, [*row, near, *each.mean(0)], strict=True):
            found[name].append(round(float(value), 5))

    look(0)
    for record in f.train():
        done = record.round + 1
        if done % every == 0 or done == f.rounds:
            look(done)
    if list(f.finish(f.population.n)):  # what clients do after the last round
        for values in found.values():
            values.pop()
        look(f.rounds)
    return found


def far(place: Tensor, aim: goal.Goal) -> float:
    """Return the distance to the target."""
    return float((place - aim.target).norm())


def honest(built: Built) -> Tensor:
    """Return the benign clients' own models, [h, d]."""
    f = built.federation
    ids = np.flatnonzero(~built.hostile)
    own = f.engine.models(f.broadcast.w, f.population.read(ids))
    return own.double().cpu()
