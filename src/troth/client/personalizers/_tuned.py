"""A personal model trained once, after the last round, from the shared one."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth.data import labels
from troth.types import (
    Batch,
    Broadcast,
    Budget,
    Carry,
    Descent,
    Groups,
    Personal,
    Phase,
    Refusal,
    Reply,
    Task,
)

EPOCHS = Budget(epochs=50)
"""How long, where `[personalizer]` does not say (Ditto, Appendix G.6)."""

Keep = Literal["last", "best", "accurate"]
"""Which model on the way is kept: the last; or, by validation data and the shared one
among them, the first with the lowest loss ("best") or highest accuracy ("accurate")."""

Without = Literal["refuse", "finetune"]
"""How to treat clients whose training examples are all of one group."""

Gradient = Callable[[Tensor, Tensor, Batch], Tensor]
"""Of the personal objective: at v, the shared model w* and a batch."""

Weigh = Callable[[Tensor, Any, Batch], tuple[Any, Batch]]
"""v, what is carried from step to step and a batch → that, and the batch weighted."""


class Way(NamedTuple):
    """How v goes from w*, and which model on the way is kept.

    Its carry: v, the best so far and its criterion, and the optimizer's moments.
    """

    descent: Descent
    keep: Keep
    loss: Callable[[Tensor, Batch], Tensor]  # lowest of the one that is kept

    def begin(self, w: Tensor) -> Carry:
        """Start at w*, with no best yet; zero-width where none is looked for."""
        best = w[:0] if self.keep == "last" else w
        return w, best, w.new_full((), torch.inf), *self.descent.init(w)

    def step(
        self,
        carry: Carry,
        gradient: Callable[[Tensor], Tensor],
        valid: Batch,
        scale: Tensor,
    ) -> Carry:
        """Take one step along a gradient."""
        v, best, lowest, *moments = carry
        if self.keep != "last":  # as it stood before this step
            best, lowest = _better(v, best, lowest, self.loss(v, valid))
        v, rest = self.descent.step(v, gradient(v), tuple(moments), scale)
        return v, best, lowest, *rest

    def end(self, carry: Carry, valid: Batch) -> Tensor:
        """Return the model that is kept; without validation data the last."""
        v: Tensor = carry[0]
        if self.keep != "last":
            best, _ = _better(v, carry[1], carry[2], self.loss(v, valid))
            v = torch.where((valid.weight > 0).any(), best, v)
        return v


def criterion(task: Task, keep: str) -> Callable[[Tensor, Batch], Tensor]:
    """Return what the kept model minimizes: its loss, or minus what it gets right.

    Right ones are counted, so that equal accuracies are equal, and examples of negative
    weight count against the model.
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
    task: Task,
    descent: Descent,
    budget: Budget | None,
    keep: Keep = "last",
    gradient: Gradient | None = None,
    weigh: tuple[Callable[[Tensor], Any], Weigh] | None = None,
    **phase: Any,
) -> Personal:
    """Follow a gradient from w* after the last round, by default for 50 epochs.

    The gradient is that of the loss unless there is another; `weigh` gives the first
    weights of examples, from w*, and updates them; `phase` are other fields of the
    phase. Clients without validation data keep the last model.
    """
    way = Way(descent, keep, criterion(task, keep))
    start, weighted = weigh or (lambda w: (), lambda v, carry, batch: (carry, batch))
    along = gradient or (lambda v, w, batch: task.grad(v, batch))

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return start(broadcast.w), *way.begin(broadcast.w)

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        side, *own = carry
        side, seen = weighted(own[0], side, batch)
        w, scale = broadcast.w, broadcast.scale
        return side, *way.step(tuple(own), lambda v: along(v, w, seen), valid, scale)

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        return kept(way.end(carry[1:], valid), broadcast, state)

    last = Phase(begin, step, end, (budget or EPOCHS,), keep != "last")
    return at_the_end(last._replace(**phase))


def at_the_end(finish: Phase) -> Personal:
    """Predict with the shared model until then.

    The state of the phase is v and whether it was trained (0 or 1).
    """
    return Personal(
        init=lambda w0: (w0, w0.new_zeros(())),
        step=lambda state, anchor, batch, valid, scale: state,
        model=lambda w, state: torch.where(state[1] > 0, state[0], w),
        finish=finish,
        idle=True,
    )


def kept(v: Tensor, broadcast: Broadcast, state: Carry) -> tuple[Reply, Carry]:
    """End such a phase: v is the client's model now."""
    return Reply(v - broadcast.w, broadcast.extra), (v, torch.ones_like(state[1]))


def _better(
    v: Tensor, best: Tensor, lowest: Tensor, loss: Tensor
) -> tuple[Tensor, Tensor]:
    less = loss < lowest
    return torch.where(less, v, best), torch.where(less, loss, lowest)


def check_groups(name: str, groups: Groups | None, without: Without) -> None:
    """Refuse data without groups and, if so wished, clients with only one."""
    if groups is None:  # there are no data yet
        return
    if groups.number == 0:
        raise Refusal(
            f"personalizer '{name}' needs the group of every example, such as aligned "
            "with a shortcut or conflicting, and these data have none; name one "
            "(data.group, or an array group in your file), take data 'colored', or "
            "personalizer 'finetune'"
        )
    lacking = np.flatnonzero(groups.held == 1)
    if without == "refuse" and len(lacking):
        some = ", ".join(map(str, lacking[:4])) + " …" * (len(lacking) > 4)
        raise Refusal(
            f"personalizer '{name}' draws from several groups, and {len(lacking)} of "
            f"{len(groups.held)} clients train on examples of one only (client {some})"
            "; set personalizer.without = 'finetune', which fine-tunes these plainly, "
            "or give them others"
        )
