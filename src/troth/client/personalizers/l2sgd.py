r"""Personal models that are pulled towards their mean.

References: hanzely2020federated, li2021ditto.
"""

from typing import Literal

import torch
from torch import Tensor

from troth import numerics, seeding
from troth.client.personalizers._owner import sent
from troth.client.regularizers import _pull
from troth.client.solvers._steps import plain
from troth.types import Batch, Broadcast, Budget, Carry, Client, Descent, Refusal, Task


def l2sgd(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    work: Budget,
    share: float,
    *,
    lam: float = 1.0,
    variant: Literal["partial", "randomised"] = "partial",
    p: float = 0.5,
) -> Client:
    """Pull personal models towards the mean of all personal models.

    Objective, over all clients' models together, with v̄ their mean (Hanzely and
    Richtárik):

        min (1/n) Σ_k F_k(v_k) + (λ/2)‖v_k − v̄‖²

    "partial" is the variant that Ditto's authors run (Ditto, F.2). Every step is v ← v
    − η(∇F_k(v) + λ(v − v̄)), where v̄ is the shared model of the round, held fixed. The
    server keeps a running mean: v̄ ← v̄ + (cohort/clients)·mean(v_k − v̄).

    "randomised" is the published method (loopless local gradient descent, L2GD). In
    every step, all clients toss the same coin. With probability p they take v ← v −
    (ηλ/p)(v − v̄), else v ← v − (η/(1 − p))∇F_k(v). On average, both together are the
    step above. At a constant η, the models end in a neighborhood of the minimizer. With
    a falling schedule, they reach it.

    The server learns every client's personal model, because the update is v_k − v̄
    times the share of all clients in a cohort. A single malicious update moves v̄,
    towards which all models are pulled. `ditto`, in contrast, pulls towards a model
    that is trained separately.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer, from `[personalizer]` or from `[train]`.
        budget: Length of the training in a round, if `[personalizer]` sets it.
        work: Length of the training in a round by `[train]`, used if `budget` is None.
        share: Size of a cohort, divided by the number of clients.
        lam: Weight λ ≥ 0 of the pull. With "partial", 0 is exactly `local`, and v̄ does
            no harm. λ → ∞ is one model for all clients.
        variant: Solver of the objective: "partial" (a step on both terms) or
            "randomised" (at random a step on the loss or a step towards the mean).
        p: Probability of a step towards the mean, in (0, 1), for "randomised". The best
            value according to its paper is λ/(L + λ) on a loss of curvature L.

    Departs: v̄ is the mean at the beginning of the round. So "randomised" is the
    published method only if all clients take part in every round, with one step each.
    With more steps, v̄ is outdated after the first step; with a part of the clients, v̄
    is a running mean. Clients communicate in every round, also if no step goes towards
    the mean. Running statistics of batch normalization are averaged and not pulled.

    Guarantee: lr·λ ("randomised": lr·λ/p) must stay below the optimizer's limit of
    stability (2 for `sgd`). Larger values diverge on any data and are refused.
    """
    if variant == "randomised":
        if not 0 < p < 1:
            raise Refusal(
                f"l2sgd's p = {p} must lie strictly between 0 and 1: the chance of a "
                "step towards the mean; 0.5 takes as many of them as of gradient steps"
            )
        hint = ", or variant = 'partial'"
        plain("l2sgd's variant = 'randomised'", "personalizer", descent, hint)
        _pull.check("l2sgd", lam, descent)
        _pull.stable("l2sgd", descent, {"lam/p": lam / p})
    else:
        _pull.check("l2sgd", lam, descent, 1.0)

    def gradient(broadcast: Broadcast, v: Tensor, batch: Batch) -> Tensor:
        if lam == 0:
            return task.grad(v, batch)
        pull = numerics.off_tail(v - broadcast.w, task.tail)
        return _pull.plus(task.grad(v, batch), pull, lam)

    def tossed(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        v, scale = carry[0], broadcast.scale
        near = v
        if lam > 0:
            pull = numerics.off_tail(v - broadcast.w, task.tail)
            near = v - (descent.lr * lam / p) * scale * pull
        away, _ = descent.step(v, task.grad(v, batch), (), scale / (1 - p))
        coin = seeding.uniform(seeding.fold(broadcast.key, batch.t), 1)[0] < p
        return (torch.where(coin, near, away),)

    client = sent(descent, gradient, budget or work, share)
    if variant == "partial":
        return client
    return client._replace(local=client.local._replace(step=tossed))
