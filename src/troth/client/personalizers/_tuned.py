"""Train a personal model, from the shared one, once after the last round."""

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
"""Default number of epochs of the training (Ditto, Appendix G.6)."""

Keep = Literal["last", "best", "accurate"]
"""Model that is kept: the last, or a candidate chosen by the client's validation data.

"best" is the candidate with the lowest loss. "accurate" is the one with the highest
accuracy; ties go to the lowest loss. Remaining ties go to the latest candidate. The
shared model is a candidate too, and loses every tie.
"""

Select = Literal["epoch", "step"]
"""Candidates: the models after each epoch of the client's data, or after each step.

The shared model and the last model are always among them.
"""

Without = Literal["refuse", "finetune"]
"""Treatment of clients whose training examples are all of one group: an error, or plain
fine-tuning."""

Gradient = Callable[[Tensor, Tensor, Batch], Tensor]
"""Personal model v, final shared model w* and a batch → gradient of the objective at
v."""

Weigh = Callable[[Tensor, Any, Batch], tuple[Any, Batch]]
"""Personal model, a carry and a batch → the new carry and the batch with new
weights."""

Measure = Callable[[Tensor, Batch], Tensor]
"""A model and validation data → two numbers [2]; the second one decides ties.

Lower is better. A model is never chosen if one of its numbers is not finite.
"""


class Way(NamedTuple):
    """The training from the final shared model w* to the personal model v.

    If `measure` is given, the result is the best model of the training. The carry holds
    v, the best candidate so far, the two numbers by which it was chosen (see
    `measure`), and the optimizer's moments.
    """

    descent: Descent
    measure: Measure | None  # None: the last model is kept
    select: Select

    def begin(self, w: Tensor) -> Carry:
        """Return the initial carry: v = w; no best candidate if not needed."""
        best = w[:0] if self.measure is None else w
        return w, best, w.new_full((2,), torch.inf), *self.descent.init(w)

    def step(
        self,
        carry: Carry,
        gradient: Callable[[Tensor], Tensor],
        batch: Batch,
        valid: Batch,
        scale: Tensor,
    ) -> Carry:
        """Compare v with the best candidate so far, then take a gradient step."""
        v, best, least, *moments = carry
        if self.measure is not None:
            now = self.measure(v, valid)
            better = _as_good(now, least)
            if self.select == "epoch":
                better = better & (batch.t % batch.per_epoch == 0)
            # the first candidate is w*; an infinite number loses every tie
            now = torch.stack([now[0], torch.where(batch.t == 0, torch.inf, now[1])])
            best = torch.where(better, v, best)
            least = torch.where(better, now, least)
        v, rest = self.descent.step(v, gradient(v), tuple(moments), scale)
        return v, best, least, *rest

    def end(self, carry: Carry, valid: Batch) -> Tensor:
        """Return the chosen model; without validation data, return the last one."""
        v: Tensor = carry[0]
        if self.measure is None:
            return v
        last = _as_good(self.measure(v, valid), carry[2])
        return torch.where(last | ~(valid.weight > 0).any(), v, carry[1])


def _as_good(now: Tensor, least: Tensor) -> Tensor:
    """Return whether a candidate's two numbers are as good as the best so far."""
    equal = (now[0] == least[0]) & (now[1] <= least[1])
    return ((now[0] < least[0]) | equal) & now.isfinite().all()


def measure(task: Task, keep: str) -> Measure | None:
    """Return the measure by which `keep` chooses; `None` if it keeps the last model.

    For "best", the measure is the validation loss. Otherwise it is minus the number of
    correctly classified examples, then the loss. Correctly classified examples of
    negative weight are subtracted from the number, and do not count in the loss. The
    number is an integer, so equal accuracies are recognized exactly.

    Raises:
        Refusal: If `keep` needs accuracies and the task is a regression.
    """
    if keep == "last":
        return None
    if keep == "best":
        return lambda v, valid: torch.stack(
            [task.loss(v, valid), valid.weight.new_zeros(())]
        )
    if task.classes == 0:
        raise Refusal(
            f"keep = '{keep}' compares accuracies, and this is a regression; take "
            "'best', the lowest loss"
        )

    def missed(v: Tensor, valid: Batch) -> Tensor:
        outputs, losses, _ = task.climb(v, valid.x, valid.y, True)
        right = (valid.weight.sign() * labels.right(outputs, valid.y)).sum()
        loss = (valid.weight.clamp(min=0) * losses).sum()
        return torch.stack([-right.to(loss.dtype), loss])

    return missed


def way(task: Task, descent: Descent, keep: str, select: Select) -> Way:
    """Return the training; raise Refusal if `select` would have no effect."""
    if keep == "last" and select != "epoch":
        raise Refusal(
            f"select = '{select}' does nothing with keep = 'last', which chooses among "
            "no models; set keep to 'best' or 'accurate', or leave select out"
        )
    return Way(descent, measure(task, keep), select)


def tuned(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    keep: Keep = "last",
    select: Select = "epoch",
    gradient: Gradient | None = None,
    weigh: tuple[Callable[[Tensor], Any], Weigh] | None = None,
    **phase: Any,
) -> Personal:
    """Return a personalizer that trains from w* after the last round.

    w* is the final shared model. Clients without validation data keep the last model.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer.
        budget: Number of steps or epochs; None means 50 epochs.
        keep: Which model is kept.
        select: Which models `keep` chooses from.
        gradient: Gradient of the personal objective; None is that of the loss.
        weigh: Two functions. The first computes a carry from w*. The second receives v,
            the carry and a batch, and returns the new carry and the batch with new
            weights of the examples.
        phase: Further fields of the `Phase`.
    """
    own_way = way(task, descent, keep, select)
    start, weighted = weigh or (lambda w: (), lambda v, carry, batch: (carry, batch))
    along = gradient or (lambda v, w, batch: task.grad(v, batch))

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return start(broadcast.w), *own_way.begin(broadcast.w)

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        side, *own = carry
        side, seen = weighted(own[0], side, batch)
        w, scale = broadcast.w, broadcast.scale
        moved = own_way.step(
            tuple(own), lambda v: along(v, w, seen), batch, valid, scale
        )
        return side, *moved

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        return kept(own_way.end(carry[1:], valid), broadcast, state)

    last = Phase(begin, step, end, (budget or EPOCHS,), keep != "last")
    return at_the_end(last._replace(**phase))


def at_the_end(finish: Phase) -> Personal:
    """Return a personalizer that predicts with the shared model until `finish` was run.

    Its state is the personal model v and a flag: 1 if v was trained, 0 if not.
    """
    return Personal(
        init=lambda w0: (w0, w0.new_zeros(())),
        step=lambda state, anchor, batch, valid, scale: state,
        model=lambda w, state: torch.where(state[1] > 0, state[0], w),
        finish=finish,
        idle=True,
    )


def kept(v: Tensor, broadcast: Broadcast, state: Carry) -> tuple[Reply, Carry]:
    """Return the reply and the state of a client that predicts with v from now on."""
    return Reply(v - broadcast.w, broadcast.extra), (v, torch.ones_like(state[1]))


def check_groups(name: str, groups: Groups | None, without: Without) -> None:
    """Raise Refusal if groups are missing.

    With without = "refuse", also raise Refusal if all examples of a client are of one
    group.
    """
    if groups is None:  # no data are loaded yet
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
