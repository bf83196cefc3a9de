"""Attacks of the chain on a federation: by crafted gradients, by a model, by data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from federations import honest, made, target, watched

from troth.poison import craft


class Work(NamedTuple):
    """Settings that every figure is given."""

    models: Path
    device: str


class Figure(NamedTuple):
    """One curve: its name, and the function that computes it."""

    figure: str
    label: str
    make: Callable[[Work], dict[str, Any]]


def gradient(
    work: Work, tree: dict[str, Any], every: int, name: str, **attack: Any
) -> dict[str, Any]:
    """Run the counter-gradient attack, and save θ♠ in finite-time form as `name`."""
    file = work.models / f"target-{name}.npy"
    aim = target(tree, file, work.device)
    attack = {"name": "counter_gradient", "target": str(file), **attack}
    built = made({**tree, "attack": attack}, work.device)
    found = watched(built, aim, every)
    tied = built.experiment.personalizer.name == "coupled"
    if tied and built.experiment.regularizer.name == "l2sq":
        rho = built.federation.broadcast.w.double().cpu()
        crafted = craft.crafted(built, rho, honest(built))
        np.save(work.models / f"model-{name}.npy", crafted.numpy())
    return found


Make = Callable[[Work], Any]


def crafted(work: Work, name: str, first: Make) -> Path:
    """Return the file with θ♠; run the gradient attack if the file is missing."""
    file = work.models / f"model-{name}.npy"
    if not file.exists():
        first(work)
    return file


def frozen(
    work: Work, tree: dict[str, Any], every: int, name: str, first: Make
) -> dict[str, Any]:
    """Run the model attack, with θ♠ of this name, which `first` saves."""
    file = crafted(work, name, first)
    attack = {"name": "frozen_model", "target": str(file)}
    aim = target(tree, work.models / f"target-{name}.npy", work.device)
    norm = float(np.linalg.norm(np.load(file)))
    built = made({**tree, "attack": attack}, work.device)
    return watched(built, aim, every) | {"model_norm": norm}


def examples(
    work: Work,
    tree: dict[str, Any],
    every: int,
    name: str,
    first: Make,
    *,
    number: int,
    weight: float | None,
    start: bool,
    **options: Any,
) -> dict[str, Any]:
    """Run the data attack, with examples that teach θ♠ of this name.

    Args:
        work: has the folder of the models.
        tree: the federation.
        every: rounds between two points of the curve.
        name: name of the models.
        first: the gradient attack that saves them.
        number: number of examples.
        weight: weight of each example; `None`: as much as suffices.
        start: whether the attacker's own model starts at θ♠, as the authors' does.
        options: options of `poison.data_attack`.
    """
    aim = target(tree, work.models / f"target-{name}.npy", work.device)
    own = crafted(work, name, first)
    file = work.models / f"poison-{name}-{number}.npz"
    plain = made({**tree, "attack": "none"}, work.device)
    model = np.load(own)
    lam = plain.experiment.personalizer.options["lam"]  # as if R were l2sq
    taught = craft.teach(plain, model, aim, number, file, weight, lam, **options)
    adversary = {**tree["adversary"], **({"start": str(own)} if start else {})}
    attacked = {**tree, "attack": "none", "corruption": taught.corruption}
    built = made({**attacked, "adversary": adversary}, work.device)
    about = {"weight": taught.corruption["weight"]}
    about |= {"enough": taught.enough, "needed": taught.needed}
    return watched(built, aim, every) | about | taught.summary._asdict()
