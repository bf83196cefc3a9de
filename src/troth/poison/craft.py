"""θ♠ of a federation, and the examples that teach it: what a chain's stages send.

`troth.poison` has the mathematics, free of federations.
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
    """θ♠, which keeps ρ where a gradient attack left it (Lemma 3).

    The finite-time form of the authors' code: from ρ and the benign clients' own models
    as they are at its end.
    """
    e, k = built.experiment, int(built.hostile.sum())
    lam, name = e.personalizer.options["lam"], e.regularizer.name
    regularizer = lookup.call(
        lookup.find("regularizer", name),
        e.regularizer.options,
        task=built.federation.engine.task,
    )
    nothing: Any = None
    pull = sum(regularizer.grad(theta, rho, nothing) for theta in own) * lam
    kind: Any = name
    return poison.model_attack(rho, pull / k, lam=lam, regularizer=kind)


class Taught(NamedTuple):
    """Examples that teach a model, written to a file."""

    corruption: dict[str, Any]  # as an experiment names them
    summary: poison.Summary
    enough: float  # weight of each that holds the model
    needed: float  # how many no examples can do without


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
    """Make the examples of a data attack (Appendix L).

    Each attacker has `number` of them, of which one counts as `weight` (None: as many
    as suffice); λ of `l2sq` pulls the `model` θ♠ [d] back to the goal θ† (None: as the
    federation's regularizer does). `options` are those of `poison.data_attack`.
    """
    e, k = built.experiment, int(built.hostile.sum())
    theta, wanted = head(built, model), head(built, goal.target.numpy())
    made = poison.data_attack(theta, number * k, e.seed, **options)
    others = int(built.data.train.size[~built.hostile].sum())
    x = made.x.reshape(-1, *built.facts["shape"])
    said = poison.save(file, x, made.y, made.p, others=others, scale=1.0)
    if lam is None:
        lam = _pull(built, float(np.linalg.norm(model - goal.target.numpy())))
    enough = k * poison.weight_needed(theta, wanted, made.x, lam=lam)
    nu = e.personalizer.options["nu"]
    needed = k * poison.examples_needed(theta, wanted, lam=lam, nu=nu)
    chosen = float(f"{max(1.0, enough):.3g}") if weight is None else weight
    corruption = {"name": "from_file", "path": str(file), "take": "share"}
    return Taught({**corruption, "weight": chosen}, said, enough, needed)


def _pull(built: Built, far: float) -> float:
    """Return the λ of `l2sq` that pulls a model so far off as this regularizer does."""
    e = built.experiment
    lam = float(e.personalizer.options["lam"])
    if e.regularizer.name == "l2sq" or far == 0:
        return lam
    return lam / (far if e.regularizer.name == "l2" else math.hypot(1.0, far))


def head(built: Built, theta: np.ndarray) -> poison.Head:
    """θ♠ as a linear classifier of inputs in units of the data's scale."""
    first = next(built.network.children())
    assert isinstance(first, Normalize)
    facts = built.facts
    features, scale = int(np.prod(facts["shape"])), facts["scale"]
    found = poison.head_of(theta, facts["classes"], features)
    mean = first.mean.double().cpu().numpy().reshape(-1) / scale
    std = 1 / first.inverse.double().cpu().numpy().reshape(-1) / scale
    return poison.before(found, mean, std)
