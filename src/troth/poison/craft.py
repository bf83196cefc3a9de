"""Build the model θ♠ of a federation's attackers, and the examples that teach it.

The mathematics is in other modules of `troth.poison`, which do not depend on a
federation.
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

    The pull of the benign clients' models on ρ is divided by the number of attackers,
    and `model_attack` finds the model that exerts the opposite pull. Like the authors'
    code, this uses the models after a finite number of rounds.

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
    """Poisoned examples in a file, and what they achieve."""

    corruption: dict[str, Any]  # section [corruption] of an experiment that uses them
    summary: poison.Summary
    enough: float  # weight of each example that holds the attacker's model at θ♠
    needed: float  # lower bound of the total weight that any examples need


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
        model: [d] model θ♠ that the examples teach.
        goal: Target θ† of the shared model.
        number: Examples of each attacker.
        file: Path of the .npz file.
        weight: Weight of each example in the loss; None: as much as is enough.
        lam: λ of an `l2sq` that pulls θ♠ to θ† as strongly as the federation's
            regularizer does; None: computed.
        **options: Of `poison.data_attack`.

    Returns:
        The corruption that uses the file, and the weights.
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
    chosen = float(f"{max(1.0, enough):.3g}") if weight is None else weight
    corruption = {"name": "from_file", "path": str(file), "take": "share"}
    return Taught({**corruption, "weight": chosen}, summary, enough, needed)


def _pull(built: Built, far: float) -> float:
    """Return the λ of `l2sq` that pulls as strongly from this distance."""
    e = built.experiment
    lam = float(e.personalizer.options["lam"])
    if e.regularizer.name == "l2sq" or far == 0:
        return lam
    return lam / math.hypot(e.regularizer.options.get("delta", 0.0), far)


def head(built: Built, theta: np.ndarray) -> poison.Head:
    """Return a model [d] as a linear classifier of inputs scaled to 0 … 1."""
    first = next(built.network.children())
    assert isinstance(first, Normalize)
    facts = built.facts
    features, scale = int(np.prod(facts["shape"])), facts["scale"]
    found = poison.head_of(theta, facts["classes"], features)
    mean = first.mean.double().cpu().numpy().reshape(-1) / scale
    std = 1 / first.inverse.double().cpu().numpy().reshape(-1) / scale
    return poison.before(found, mean, std)
