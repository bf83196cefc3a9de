"""A personal model trained once, after the last round, from the shared one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from troth.data import labels
from troth.types import (
    Batch,
    Broadcast,
    Budget,
    Carry,
    Descent,
    Personal,
    Phase,
    Refusal,
    Reply,
    Task,
)

Keep = Literal["last", "best", "accurate"]
"""Which of the models on the way is kept: the last; or, on the client's validation data
and the shared model among them, the one with the lowest loss ("best") or the highest
accuracy ("accurate"), of equal ones the first."""

Gradient = Callable[[Tensor, Tensor, Batch], Tensor]
"""Of the personal objective: at v, the shared model w* and a batch."""


class Way(NamedTuple):
    """How v goes from w*, and which model on the way is kept.

    Its carry: v, the best so far and its criterion, and the optimiser's moments.
    """

    descent: Descent
    keep: Keep
    loss: Callable[[Tensor, Batch], Tensor]  # lowest of the one that is kept

    def begin(self, w: Tensor) -> Carry:
        """At w*."""
        return w, *_first(w, self.keep), *self.descent.init(w)

    def step(
        self,
        carry: Carry,
        gradient: Callable[[Tensor], Tensor],
        valid: Batch,
        scale: Tensor,
    ) -> Carry:
        """One step along a gradient."""
        v, best, lowest, *moments = carry
        if self.keep != "last":  # as it stood before this step
            best, lowest = _better(v, best, lowest, self.loss(v, valid))
        v, rest = self.descent.step(v, gradient(v), tuple(moments), scale)
        return v, best, lowest, *rest

    def end(self, carry: Carry, valid: Batch) -> Tensor:
        """The model that is kept; without validation data the last."""
        v: Tensor = carry[0]
        if self.keep != "last":
            best, _ = _better(v, carry[1], carry[2], self.loss(v, valid))
            v = torch.where((valid.weight > 0).any(), best, v)
        return v


def criterion(task: Task, keep: str) -> Callable[[Tensor, Batch], Tensor]:
    """What is lowest of the model that is kept: its loss, or less what it gets right.

    Args:
        task: the client's problem.
        keep: "last" and "best": the loss; else examples are counted, so that equal
            accuracies are equal, and those of negative weight count against it.

    Raises:
        Refusal: a regression has no accuracy.
    """
    if keep in ("last", "best"):
        return task.loss
    if task.classes == 0:
        raise Refusal(
            f"keep = '{keep}' counts what is right, and this is a regression; take "
            "'best', the lowest loss"
        )

    def missed(v: Tensor, valid: Batch) -> Tensor:
        right = labels.right(task.predict(v, valid.x), valid.y)
        return -(valid.weight.sign() * right).sum()

    return missed


def tuned(
    descent: Descent,
    gradient: Gradient,
    budget: Budget,
    keep: Keep,
    loss: Callable[[Tensor, Batch], Tensor],
) -> Personal:
    """After the last round v follows a gradient from w*.

    Args:
        descent: how v follows the gradient.
        gradient: of the personal objective.
        budget: how long.
        keep: which model on the way.
        loss: what is lowest of the one that is kept (`criterion`); clients
            without validation data keep the last.
    """
    way = Way(descent, keep, loss)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return way.begin(broadcast.w)

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        w, scale = broadcast.w, broadcast.scale
        return way.step(carry, lambda v: gradient(v, w, batch), valid, scale)

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        return kept(way.end(carry, valid), broadcast, state)

    return at_the_end(Phase(begin, step, end, (budget,), valid=keep != "last"))


def at_the_end(finish: Phase) -> Personal:
    """Until then the client predicts with the shared model.

    Args:
        finish: its state is v and whether it was trained (0 or 1).
    """
    return Personal(
        init=lambda w0: (w0, w0.new_zeros(())),
        step=lambda state, anchor, batch, valid, scale: state,
        model=lambda w, state: torch.where(state[1] > 0, state[0], w),
        finish=finish,
        idle=True,
    )


def kept(v: Tensor, broadcast: Broadcast, state: Carry) -> tuple[Reply, Carry]:
    """What such a phase ends with: v is the client's model now."""
    return Reply(v - broadcast.w, broadcast.extra), (v, torch.ones_like(state[1]))


def _first(w: Tensor, keep: Keep) -> tuple[Tensor, Tensor]:
    """No best yet; zero-width where none is looked for."""
    lowest = w.new_full((), torch.inf)
    return (w[:0], lowest) if keep == "last" else (w, lowest)


def _better(
    v: Tensor, best: Tensor, lowest: Tensor, loss: Tensor
) -> tuple[Tensor, Tensor]:
    less = loss < lowest
    return torch.where(less, v, best), torch.where(less, loss, lowest)
