"""Fine-tuning for the group that fares worst.

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

_MOST = 32  # groups; each costs a loss a step


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
    """Fine-tuning on a weighted loss whose weights grow where the loss is high.

    Sagawa et al. 2020, Algorithm 1, at every client after the last round. Batches are
    drawn as `upweight` draws them, every group being equally likely. With L_g(v) the
    mean loss of the batch's examples of group g, in every step

        q_g ← q_g·exp(η_q·L_g(v)), normalized;   v ← v − η·Σ_g q_g·∇L_g(v).

    q begins with equal weights and is forgotten at the end.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        budget: Length of the training; None is 50 epochs.
        groups: Groups of the training examples.
        step: Step size η_q ≥ 0 of the weights; 0: equal weights, exactly `upweight`.
            η_q → ∞ trains on the batch's worst group alone. The authors have 0.01.
        keep: Model kept: the "last", or one chosen by the client's validation data.
            "best" has the lowest loss, "accurate" the highest accuracy and, of equal
            ones, the lowest loss. Of models still equal the latest is kept. The shared
            model w* is a candidate that loses every tie. Groups count by their
            shares of the validation data.
        select: Candidates of `keep`, next to w* and the last model: the models after
            every "epoch" of the client's data, or after every "step".
        without: Clients with examples of one group only: "refuse" them or "finetune"
            them. Then q has nothing to weigh, exactly as in `finetune`.

    Departs: Algorithm 1 takes one example a step; here a batch, as the authors' code
    does, in which a group counts by its examples, q_g each, divided by what all of the
    batch come to, so that an uneven draw does not change the length of a step. A group
    that a batch lacks keeps its q but for the normalization. The strong
    weight decay that the paper recommends is `train.weight_decay`.
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
    """Return the logarithm of q after a step, the largest being 0."""
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
    """Weight every example as its group; together they weigh 1 as before."""
    q = logits.softmax(0)[batch.group]
    weight = batch.weight * q
    total = weight.sum()
    return batch._replace(weight=weight / torch.where(total > 0, total, 1.0))
