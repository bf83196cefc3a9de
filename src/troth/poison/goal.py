"""The target θ† of an attacker, and the accuracy of the shared model ρ after an attack.

The paper is Farhadkhani et al. (2022), *An Equivalence Between Data Poisoning and
Byzantine Gradient Attacks*.
"""

import inspect
from typing import NamedTuple

import torch
from torch import Tensor

from troth import lookup
from troth.build import Built
from troth.client.optimizers.adam import adam
from troth.networks import target_model
from troth.types import Batch, Refusal


class Goal(NamedTuple):
    """The target model."""

    target: Tensor  # [d], float64
    name: str  # a corruption of labels, or the file of the model


def named(name: str) -> bool:
    """Return whether the name is that of a corruption; otherwise it is a file."""
    return name in lookup.names("corruption")


def goal(built: Built, name: str, epochs: int, lr: float) -> Goal:
    """Return the target θ†: read from a file, or trained on data with changed labels.

    Each step of Adam uses all training data of all clients. The paper's target has the
    labels y + 1 (Section 5.3), like `shift_labels`.

    Args:
        built: the federation.
        name: a corruption of labels, or a .npy file with a vector of parameters.
        epochs: number of steps of training.
        lr: learning rate.
    """
    task, w = built.federation.engine.task, built.federation.broadcast.w
    if not named(name):
        return Goal(target_model.read(name, task.d), name)
    if epochs < 1 or not lr > 0:
        raise Refusal(
            f"the target would be trained for {epochs} epochs with learning rate {lr}; "
            "set at least 1 epoch and a learning rate above 0"
        )
    split, zero = built.data.train, torch.tensor(0)
    y = wanted(built, name, split.y)
    weight = torch.full((len(y),), 1 / len(y), dtype=w.dtype, device=w.device)
    batch = Batch(built.data.x[split.row], y, weight, zero, zero + 1)
    optimizer, v = adam(), w.clone()
    moments = optimizer.init(v)
    for _ in range(epochs):
        g = task.grad(v, batch)
        v, moments = optimizer.step(v, g, moments, v.new_tensor(lr))
    return Goal(v.double().cpu(), name)


def wanted(built: Built, name: str, y: Tensor) -> Tensor:
    """Return the labels that the corruption `name` gives in place of y.

    Raise Refusal if the corruption needs more than inputs and labels.
    """
    function, given = lookup.find("corruption", name), {"x": y[:, None], "y": y}
    asked = set(inspect.signature(function).parameters)
    if asked - set(lookup.options(function)) - {"x", "y", "classes"}:
        raise Refusal(
            f"'{name}' is not a rule that changes labels alone; take shift_labels or "
            "flip_labels, or give a file with a model"
        )
    options = lookup.check("corruption", name, {})
    classes = built.facts["classes"]
    changed: Tensor = lookup.call(function, options, classes=classes, **given)[1]
    return changed


def judged(built: Built, goal: Goal, rho: Tensor) -> tuple[float, float]:
    """Return the accuracy of ρ on all test data, by true and by wanted labels.

    The wanted labels are those of the corruption. If the target came from a file, they
    are the predictions of θ†.
    """
    engine, test = built.federation.engine, built.data.test
    task = engine.task
    w = rho.to(built.federation.broadcast.w)
    x = built.data.x[test.row]
    with torch.no_grad(), engine.products():
        predicted = task.predict(w, x).argmax(1)
        if named(goal.name):
            other = wanted(built, goal.name, test.y)
        else:
            other = task.predict(goal.target.to(w), x).argmax(1)
    shares = [(predicted == y).double().mean() for y in (test.y, other)]
    return float(shares[0]), float(shares[1])
