"""Fine-tuning for the group with the highest loss.

References: sagawa2020distributionally.
"""

import math

import torch
from torch import Tensor

from troth.client.personalizers._tuned import (
    Keep,
    Select,
    Without,
    check_groups,
    tuned,
)
from troth.types import Batch, Budget, Descent, Groups, Personal, Refusal, Task

_MOST = 32  # largest number of groups; each one costs one loss per step


def group_dro(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    groups: Groups | None = None,
    *,
    step: float = 0.01,
    keep: Keep = "last",
    select: Select = "epoch",
    without: Without = "refuse",
) -> Personal:
    """Fine-tune with group weights that grow for groups with a high loss.

    After the last round, every client trains the shared model further by Algorithm 1 of
    Sagawa et al. 2020. A group is, for example, all examples that conflict with a
    shortcut. Batches are drawn as in `upweight`, where every group is equally likely. v
    is the personal model, q_g the weight of group g, and L_g(v) the mean loss of the
    batch's examples of group g. In every step

        q_g ← q_g·exp(η_q·L_g(v)), normalized;   v ← v − η·Σ_g q_g·∇L_g(v).

    The weights q_g are equal at the beginning, and are not kept after the training.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        budget: Number of steps or epochs; None means 50 epochs.
        groups: Groups of the training examples.
        step: Step size η_q ≥ 0 of the group weights. 0 keeps them equal, which is
            exactly `upweight`. With η_q → ∞, only the batch's group with the highest
            loss is trained on. The authors have 0.01.
        keep: Model to keep: the "last", or a candidate chosen by the client's
            validation data. "best" has the lowest loss, "accurate" the highest accuracy
            (then the lowest loss). Remaining ties go to the latest candidate. The
            shared model w* is a candidate too, and loses every tie. In the validation
            data, groups have their natural proportions.
        select: Candidates for `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.
        without: Treatment of clients whose examples are all of one group: "refuse"
            stops with an error, "finetune" trains them exactly as `finetune` does.

    Departs: Algorithm 1 takes one example per step. Here a step takes a batch, as in
    the authors' code. An example of group g has the weight q_g, divided by the sum of
    these weights over the batch. So the length of a step does not depend on how many
    examples of each group are in the batch. If a batch lacks a group, its q_g changes
    only by the normalization. The strong weight decay that the paper recommends is
    `train.weight_decay`.
    """
    check_groups("group_dro", groups, without)
    if not 0 <= step < math.inf:
        raise Refusal(f"group_dro's step = {step} must be at least 0, such as 0.01")
    number = 1 if groups is None else groups.number
    if number > _MOST:
        raise Refusal(
            f"group_dro computes the loss of every group in every step, and the data "
            f"have {number} of them; it takes at most {_MOST}: join some, or use "
            "upweight"
        )

    def weigh(v: Tensor, logits: Tensor, batch: Batch) -> tuple[Tensor, Batch]:
        if number == 1:
            return logits, batch
        logits = _raised(task, v, logits, batch, step)
        return logits, _weighted(logits, batch)

    weights = (lambda w: w.new_zeros(number), weigh)
    return tuned(task, descent, budget, keep, select, weigh=weights, by_group=True)


def _raised(task: Task, v: Tensor, logits: Tensor, batch: Batch, step: float) -> Tensor:
    """Return log q after a step; a constant is added to make the largest entry 0."""
    if step == 0:
        return logits
    raised = []
    for g in range(len(logits)):
        part = batch.weight * (batch.group == g)
        total = part.sum()
        mean = part / torch.where(total > 0, total, 1.0)
        loss = task.loss(v, batch._replace(weight=mean))
        raised.append(torch.where(total > 0, loss, 0.0))
    logits = logits + step * torch.stack(raised)
    return logits - logits.amax()


def _weighted(logits: Tensor, batch: Batch) -> Batch:
    """Weight every example by its group's q, and normalize the sum of weights to 1."""
    q = logits.softmax(0)[batch.group]
    weight = batch.weight * q
    total = weight.sum()
    return batch._replace(weight=weight / torch.where(total > 0, total, 1.0))
