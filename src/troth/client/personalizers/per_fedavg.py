"""Per-FedAvg: a shared model that fits every client after one step.

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

_SPLIT = 2**40  # number that keeps these draws apart from others with the same key


def per_fedavg(
    task: Task,
    descent: Descent,
    solving: Descent,
    budget: Budget | None,
    work: Budget,
    batch: int = 0,
    *,
    variant: Literal["first_order", "hessian_free", "exact"] = "first_order",
    alpha: float = 0.01,
    delta: float = 1e-3,
    same_batch: bool = False,
) -> Client:
    """Train a shared model that fits every client after one gradient step on its data.

    The objective is min_w (1/n)·Σ_k F_k(w − α∇F_k(w)) (Per-FedAvg, Algorithm 1), where
    F_k is the loss of client k. In every step, a client draws batches D, D' and D'' and
    moves its copy w_k of the shared model wᵗ:

        w_k ← w_k − η(I − α∇²F(w_k; D''))·g,   g = ∇F(w_k − α∇F(w_k; D); D')

    η and the optimizer are those of `[train]`. The update is w_k − wᵗ.

    After the last round, every client trains the final shared model w* further on F_k,
    with `personalizer.lr` and `.optimizer`. The default is one epoch;
    `personalizer.steps` or `.epochs` changes it. Until then, clients predict with the
    shared model. With lr = α, steps = 1 and a batch of all data, this is the one step
    of the objective.

    The batch of each step is divided at random into two parts (D, D'), or into three
    (D, D', D'') if the variant uses the Hessian. So `train.batch` is the number of
    examples of all parts together. If a batch has fewer examples than parts, the empty
    parts are replaced by the first.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer of the training after the last round.
        solving: Learning rate and optimizer of w_k.
        budget: Number of steps or epochs after the last round; None means one epoch.
        work: Number of steps or epochs in a round.
        batch: Number of examples in a batch; 0 means all examples of the client.
        variant: Treatment of the Hessian. "exact" computes its product with g by
            automatic differentiation. "hessian_free" approximates the product by
            (∇F(w_k + δg; D'') − ∇F(w_k − δg; D''))/2δ, like Per-FedAvg (HF) of the
            paper. "first_order" leaves the Hessian out, which is cheaper. It converges
            to another point, at which the g of all clients add up to 0.
        alpha: Size of the inner step, α ≥ 0. No schedule scales it. 0 (with
            `same_batch`) is exactly `fedavg` followed by `finetune`. The paper requires
            α ≤ 1/L on curvature L, so that the inner step does not overshoot.
        delta: Step δ > 0 of the finite difference, for "hessian_free". For quadratic
            F_k, the result is exact for every δ. Otherwise a large δ has a larger
            truncation error, and a small one a larger rounding error. If a ReLU
            switches on or off between w_k − δg and w_k + δg, the error is the jump of
            the gradient divided by 2δ. "exact" has no such errors.
        same_batch: Whether every gradient is computed on the whole batch. The steps are
            then unbiased only if a batch contains all data of the client.

    Departs: in the paper, each of the three batches is drawn from all data. Here one
    batch is divided. (The code of Ditto's authors also draws three batches. It has η =
    0.01 and δ = 0.001, and α is the learning rate of its fedavg. Its clients then
    fine-tune for 40 epochs.) Weight decay applies to the outer steps only. The running
    statistics of batch normalization follow D' only.

    Guarantee: if batches hold all data and a round is one step, "exact" and
    "hessian_free" converge to the minimizer of the objective on quadratic F_k. With
    several steps in a round, clients drift towards their own minimizers, as with
    `fedavg`.
    """
    tail, differences = task.tail, variant == "hessian_free"
    if not 0 <= alpha < float("inf"):
        raise Refusal(
            f"per_fedavg's alpha = {alpha} must be a finite number of at least 0; it "
            "is the size of the inner step, such as 0.01"
        )
    if differences and not 0 < delta < float("inf"):
        raise Refusal(
            f"per_fedavg's delta = {delta} must be a finite number above 0; it is the "
            "step of the finite difference, such as 0.001"
        )
    many = 2 if variant == "first_order" else 3
    if batch and not same_batch:
        _enough(batch, many)

    def gradient(broadcast: Broadcast, w: Tensor, batch: Batch) -> Tensor:
        parts = [batch] * many if same_batch else _parts(batch, many)
        if alpha == 0:
            return task.grad(w, parts[1])
        ahead = w - alpha * numerics.off_tail(task.grad(w, parts[0]), tail)
        g = task.grad(ahead, parts[1])
        if variant == "first_order":
            return g
        g = g.clone()  # the next gradient may overwrite g
        if variant == "exact":
            return g - alpha * task.bend(w, parts[2], g)
        along = delta * numerics.off_tail(g, tail)
        forth = task.grad(w + along, parts[2]).clone()
        bend = (forth - task.grad(w - along, parts[2])) / (2 * delta)
        return g - alpha * numerics.off_tail(bend, tail)

    own = tuned(task, descent, budget or Budget(epochs=1))
    solver = steps(solving, gradient)._replace(init=own.init)
    return owner(solver, work, own.model, False, finish=own.finish, idle=True)


def _enough(rows: int, many: int) -> None:
    if rows < many:
        raise Refusal(
            f"per_fedavg needs {many} different batches a step, which are parts of one "
            f"batch of [train], and that has {rows} examples; set train.batch to at "
            f"least {many}, or personalizer.same_batch = true"
        )


def _parts(batch: Batch, many: int) -> list[Batch]:
    """Divide a batch at random into parts of about equal size.

    If there are fewer examples than parts, the empty parts are replaced by the first.
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
