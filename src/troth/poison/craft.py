"""Build the model θ♠ of a federation's attackers, and examples to learn it from.

A shared model ρ is coupled with the clients' models. A gradient attack moves ρ to a
target θ†, and attackers with the model θ♠ keep it there. The mathematics is in other
modules of `troth.poison`, which do not depend on a federation. The paper is Farhadkhani
et al. (2022), *An Equivalence Between Data Poisoning and Byzantine Gradient Attacks*.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from troth import lookup, poison
from troth.build import Built
from troth.networks.layers import Normalize
from troth.poison.goal import Goal


def crafted(built: Built, rho: Tensor, own: Sequence[Tensor] | Tensor) -> Tensor:
    """Return the model θ♠ that keeps ρ where a gradient attack left it (Lemma 3).

    The pull of the benign clients' models on ρ is divided by the number of attackers.
    `model_attack` finds the model that exerts the opposite pull. Lemma 3 is about the
    models after infinitely many rounds. Like the authors' code, this function uses
    those after a finite number.

    Args:
        built: Federation with personalizer `coupled`.
        rho: [d] shared model ρ after the gradient attack.
        own: [n, d] models of the benign clients at that time.

    Returns:
        θ♠, [d].
    """
    e, k = built.experiment, int(built.hostile.sum())
    lam, name = e.personalizer.options["lam"], e.regularizer.name
    options = e.regularizer.options
    task = built.federation.engine.task
    regularizer = lookup.call(lookup.find("regularizer", name), options, task=task)
    nothing: Any = None
    pull = sum(regularizer.grad(theta, rho, nothing) for theta in own) * lam
    kind: Any = name
    return poison.model_attack(rho, pull / k, lam=lam, regularizer=kind, **options)


class Taught(NamedTuple):
    """The use of poisoned examples that were written to a file."""

    corruption: dict[str, Any]  # section [corruption] of an experiment that uses them
    summary: poison.Summary
    enough: float  # weight of each example with which attackers' models stay near θ♠
    needed: float  # least total weight with which any examples can achieve this


def teach(
    built: Built,
    model: np.ndarray,
    goal: Goal,
    number: int,
    file: Path,
    weight: float | None = None,
    lam: float | None = None,
    **options: Any,
) -> Taught:
    """Write the poisoned examples of a data attack to a file (Appendix L).

    Args:
        built: Federation with personalizer `coupled` and a linear model.
        model: [d] model θ♠ to learn from the examples.
        goal: Target θ† of the shared model.
        number: Number of examples of each attacker.
        file: Path of the .npz file.
        weight: Weight of each example in the loss; None: the estimate `enough` of the
            result, or 1 if this is larger.
        lam: λ with which the regularizer `l2sq` would pull θ♠ to θ† as strongly as the
            federation's regularizer does; None: computed.
        **options: Options of `poison.data_attack`.

    Returns:
        The corruption that reads the file, a summary of the examples, and the weights.
    """
    e, k = built.experiment, int(built.hostile.sum())
    theta, wanted = head(built, model), head(built, goal.target.numpy())
    made = poison.data_attack(theta, number * k, e.seed, **options)
    others = int(built.data.train.size[~built.hostile].sum())
    x = made.x.reshape(-1, *built.facts["shape"])
    summary = poison.save(file, x, made.y, made.p, others=others, scale=1.0)
    if lam is None:
        lam = _pull(built, float(np.linalg.norm(model - goal.target.numpy())))
    enough = k * poison.weight_needed(theta, wanted, made.x, lam=lam)
    nu = e.personalizer.options["nu"]
    needed = k * poison.examples_needed(theta, wanted, lam=lam, nu=nu)
    enough_or_one = max(1.0, enough) if math.isfinite(enough) else 1.0
    chosen = float(f"{enough_or_one:.3g}") if weight is None else weight
    corruption = {"name": "from_file", "path": str(file), "take": "share"}
    return Taught({**corruption, "weight": chosen}, summary, enough, needed)


def _pull(built: Built, far: float) -> float:
    """Return the λ with which `l2sq` pulls as strongly as the federation's regularizer.

    Both are compared at the distance `far`.
    """
    e = built.experiment
    lam = float(e.personalizer.options["lam"])
    if e.regularizer.name == "l2sq" or far == 0:
        return lam
    return lam / math.hypot(e.regularizer.options.get("delta", 0.0), far)


def head(built: Built, theta: np.ndarray) -> poison.Head:
    """Convert a model [d] to a linear classifier of inputs scaled to 0 … 1."""
    first = next(built.network.children())
    assert isinstance(first, Normalize)
    facts = built.facts
    features, scale = int(np.prod(facts["shape"])), facts["scale"]
    found = poison.head_of(theta, facts["classes"], features)
    mean = first.mean.double().cpu().numpy().reshape(-1) / scale
    std = 1 / first.inverse.double().cpu().numpy().reshape(-1) / scale
    return poison.before(found, mean, std)
