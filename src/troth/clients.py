"""Task → client: a solver and a personalizer, with their learning rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from troth import lookup
from troth.beside import beside
from troth.parts import Part
from troth.sections import Experiment
from troth.types import Budget, Client, Descent, Optimizer, Personal, Task


def descent(part: Part, lr: float, weight_decay: float) -> Descent:
    """An optimiser with its learning rate."""
    optimizer: Optimizer = lookup.call(
        lookup.find("optimizer", part.name), part.options
    )

    def step(v: Tensor, g: Tensor, moments: Any, scale: Tensor) -> Any:
        if weight_decay:
            g = g + weight_decay * v
        return optimizer.step(v, g, moments, lr * scale)

    return Descent(lr, optimizer.limit, optimizer.init, step)


def maker(e: Experiment) -> Callable[[Task], Client]:
    """How this experiment makes a client of a task."""
    t, p = e.train, e.personalizer
    shared = descent(t.optimizer, t.lr, t.weight_decay)
    lr = t.lr if p.lr is None else p.lr
    own = descent(p.optimizer or t.optimizer, lr, t.weight_decay)
    budget = Budget(t.steps, t.epochs)
    budgets = budget, Budget(p.steps, p.epochs) if p.steps or p.epochs else budget

    def make(task: Task) -> Client:
        regularizer = lookup.call(
            lookup.find("regularizer", e.regularizer.name),
            e.regularizer.options,
            task=task,
        )
        personal = lookup.call(
            lookup.find("personalizer", p.name),
            p.options,
            task=task,
            descent=own,
            regularizer=regularizer,
        )
        if not isinstance(personal, Personal):  # it owns the reply
            return personal  # type: ignore[no-any-return]
        solver = lookup.call(
            lookup.find("solver", e.solver.name),
            e.solver.options,
            task=task,
            descent=shared,
        )
        return beside(solver, personal, budgets)

    return make
