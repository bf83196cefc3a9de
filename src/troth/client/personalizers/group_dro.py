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

_MOST = 32  # groups; every group costs one loss per step


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

    Every client runs Algorithm 1 of Sagawa et al. 2020 after the last round. Batches
    are drawn as in `upweight`, where every group is equally likely. L_g(v) is the mean
    loss of the batch's examples of group g. In every step

        q_g ← q_g·exp(η_q·L_g(v)), normalized;   v ← v − η·Σ_g q_g·∇L_g(v).

    The weights q are equal at the beginning and are dropped at the end.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer, from `[personalizer]` or from `[train]`.
        budget: Length of the training; None is 50 epochs.
        groups: Groups of the training examples.
        step: Step size η_q ≥ 0 of the group weights. 0 keeps them equal, which is
            exactly `upweight`. η_q → ∞ trains only on the group with the highest loss
            in the batch. The authors have 0.01.
        keep: Model to keep: the "last", or a candidate chosen by the client's
            validation data. "best" has the lowest loss, "accurate" the highest accuracy
            (then the lowest loss). Remaining ties go to the latest candidate. The
            shared model w* is a candidate too, and loses every tie. Groups have their
            natural shares in the validation data.
        select: Candidates for `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.
        without: Treatment of clients whose examples are all of one group: "refuse"
            stops with an error, "finetune" trains them exactly as `finetune` does.

    Departs: Algorithm 1 takes one example per step. Here a step takes a batch, as in
    the authors' code. An example of group g has the weight q_g, divided by the sum of
    these weights over the batch. So the numbers of examples per group in a batch do not
    change the length of a step. If a batch lacks a group, the group keeps its q, apart
    from the normalization. The strong weight decay that the paper recommends is
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
    """Return log q after a step, shifted so that the largest entry is 0."""
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
    """Weight every example by its group's q; the weights sum to 1 as before."""
    q = logits.softmax(0)[batch.group]
    weight = batch.weight * q
    total = weight.sum()
    return batch._replace(weight=weight / torch.where(total > 0, total, 1.0))
