"""Per-FedAvg: a shared model from which one step serves every client.

References: fallah2020personalized.
"""

from typing import Literal

import torch
from torch import Tensor

from troth import numerics, seeding
from troth.client.personalizers._owner import owner
from troth.client.personalizers._tuned import tuned
from troth.client.solvers._steps import steps
from troth.types import Batch, Broadcast, Budget, Client, Descent, Refusal, Task

_SPLIT = 2**40  # what these draws are for: others of the step count from 0


def per_fedavg(
    task: Task,
    descent: Descent,
    solving: Descent,
    budget: Budget | None,
    work: Budget,
    batch: int = 0,
    *,
    variant: Literal["first_order", "hessian_free"] = "first_order",
    alpha: float = 0.01,
    delta: float = 1e-3,
    same_batch: bool = False,
) -> Client:
    """min_w (1/n)·Σ_k F_k(w − α∇F_k(w)): w is judged by its loss after one step.

    Per-FedAvg (Algorithm 1): in every step a client draws batches D, D', D'' and moves
    w_k ← w_k − η(I − α∇²F(w_k; D''))·g, g = ∇F(w_k − α∇F(w_k; D); D'), with η and the
    optimizer of `[train]`; the update is w_k − wᵗ. "first_order" leaves the Hessian
    out; "hessian_free" takes (∇F(w_k + δg; D'') − ∇F(w_k − δg; D''))/2δ for its product
    with g.

    After the last round every client takes w* on by its own loss, for one epoch or for
    `personalizer.steps` or `.epochs`, with `personalizer.lr` and `.optimizer`; until
    then it predicts with w. (lr = α, steps = 1 and a batch of all data are the step
    that w* was trained for.)

    The batch of a step is divided anew, at random, into two parts (D, D'), with
    "hessian_free" three: `train.batch` counts them together. In a batch with fewer
    examples than parts, the first stands in for those that are empty.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer of the adaptation after the last round.
        solving: Learning rate and optimizer of w_k.
        budget: Length of the adaptation; None is one epoch.
        work: Length of a client's training in a round.
        batch: Number of examples in a batch; 0: all that a client has.
        variant: Hessian: left out ("first_order", cheaper) or "hessian_free".
            "first_order" ends elsewhere: where Σ_k g_k = 0.
        alpha: Inner step α ≥ 0; no schedule scales it. 0 (with `same_batch`) is exactly
            `fedavg` and then `finetune`. The paper has it at most 1/L on curvature L,
            where the inner step does not overshoot.
        delta: Finite difference δ > 0. For quadratic F_k any is exact, else a larger
            one is less so, and a smaller one loses digits.
        same_batch: Whether every gradient is of the whole batch. The objective has this
            where batches are all data; with fewer, the gradient is biased.

    Departs: the paper draws three batches, from all data each; here a batch is divided.
    (The code of Ditto's authors draws three, too, has η = 0.01, δ = 0.001 and for α the
    rate tuned for fedavg, with which clients then fine-tune for 40 epochs.) Weight
    decay acts in outer steps alone. Running statistics of batch normalization follow
    D' alone.

    Guarantee: where batches are all data and a round is one step, "hessian_free" on
    quadratic F_k ends at the minimizer of the objective. Several steps a round drift
    towards the clients' own minimizers, as with `fedavg`.
    """
    tail, product = task.tail, variant == "hessian_free"
    if not 0 <= alpha < float("inf"):
        raise Refusal(
            f"per_fedavg's alpha = {alpha} must be a finite number of at least 0: the "
            "inner step; 0 takes none"
        )
    if product and not 0 < delta < float("inf"):
        raise Refusal(
            f"per_fedavg's delta = {delta} must be a finite number above 0: how far "
            "gradients are compared; Ditto's authors have 0.001"
        )
    many = 3 if product else 2
    if batch and not same_batch:
        _enough(batch, many)

    def gradient(broadcast: Broadcast, w: Tensor, batch: Batch) -> Tensor:
        parts = [batch] * many if same_batch else _parts(batch, many)
        if alpha == 0:
            return task.grad(w, parts[1])
        ahead = w - alpha * numerics.off_tail(task.grad(w, parts[0]), tail)
        g = task.grad(ahead, parts[1])
        if not product:
            return g
        g = g.clone()  # the task may use its buffer again
        way = delta * numerics.off_tail(g, tail)
        forth = task.grad(w + way, parts[2]).clone()
        bend = (forth - task.grad(w - way, parts[2])) / (2 * delta)
        return g - alpha * numerics.off_tail(bend, tail)

    own = tuned(task, descent, budget or Budget(epochs=1))
    solver = steps(solving, gradient)._replace(init=own.init)
    return owner(solver, work, own.model, False, finish=own.finish, idle=True)


def _enough(rows: int, many: int) -> None:
    if rows < many:
        raise Refusal(
            f"per_fedavg needs {many} different batches a step, parts of the one that "
            f"train.batch makes, and that has {rows}; set train.batch to at least "
            f"{many}, or personalizer.same_batch = true to use it whole"
        )


def _parts(batch: Batch, many: int) -> list[Batch]:
    """Divide the batch at random into so many of about equal size.

    Where there are fewer examples than that, the first part stands in for empty ones.
    """
    rows = len(batch.weight)
    _enough(rows, many)
    there = batch.weight > 0
    key = seeding.fold(seeding.fold(batch.key, batch.t), _SPLIT)
    order = torch.where(there, seeding.uniform(key, rows), 2.0).argsort(stable=True)
    parts = []
    for k in range(many):
        own = order[k::many]
        own = torch.where(there.sum() > k, own, order[::many][: len(own)])
        weight = batch.weight[own]
        total = weight.sum()
        weight = weight / torch.where(total > 0, total, 1.0)
        parts.append(batch._replace(x=batch.x[own], y=batch.y[own], weight=weight))
    return parts
