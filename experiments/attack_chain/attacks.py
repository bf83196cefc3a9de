"""How an attack of the chain is run on a federation: by reports, a model, data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from federations import honest, made, target, watched

from troth.poison import craft


class Work(NamedTuple):
    """What every figure is given."""

    models: Path
    device: str


class Figure(NamedTuple):
    """One curve: what it is called, and how it is made."""

    figure: str
    label: str
    make: Callable[[Work], dict[str, Any]]


def gradient(
    work: Work, tree: dict[str, Any], every: int, name: str, **attack: Any
) -> dict[str, Any]:
    """Counter-gradient; θ♠ by the finite-time form is left under this name."""
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
    """The file with θ♠ of that name; the attack by reports is run if it is missing."""
    file = work.models / f"model-{name}.npy"
    if not file.exists():
        first(work)
    return file


def frozen(
    work: Work, tree: dict[str, Any], every: int, name: str, first: Make
) -> dict[str, Any]:
    """The model attack, with θ♠ of that name, which `first` leaves."""
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
    """The data attack, with examples that teach θ♠ of that name.

    Args:
        work: where models lie.
        tree: the federation.
        every: rounds between two points.
        name: of the models.
        first: the attack by reports that leaves them.
        number: of examples.
        weight: as how many each counts; None: as many as suffice.
        start: whether the attacker's own model begins at θ♠, as the authors' does.
        options: of `poison.data_attack`.
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
