r"""Personal models pulled towards their mean.

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
    """Personal models pulled towards the mean of all personal models.

    Objective, over all clients' models together, with v̄ their mean (Hanzely and
    Richtárik):

        min (1/n) Σ_k F_k(v_k) + (λ/2)‖v_k − v̄‖²

    "partial", as Ditto's authors run it (its F.2): every step is
    v ← v − η(∇F_k(v) + λ(v − v̄)) with v̄ the shared model of the round, held fixed, and
    the server keeps a running mean, v̄ ← v̄ + (cohort/clients)·mean(v_k − v̄).

    "randomised", as published (loopless local gradient descent, L2GD): in every step
    all clients toss the same coin; with chance p they take v ← v − (ηλ/p)(v − v̄), else
    v ← v − (η/(1 − p))∇F_k(v). Both together are the step above on average; at a
    constant η the models end in a neighbourhood of the minimizer, with a schedule that
    falls they reach it.

    The server learns every client's personal model: the update is v_k − v̄, times the
    share of the clients that a round asks. One update moves v̄, towards which all are
    pulled; `ditto` pulls towards a model that is trained apart.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        budget: Length of the training in a round, if `[personalizer]` sets it.
        work: Length of the training in a round, if `[personalizer]` sets none.
        share: Share of all clients that a round asks.
        lam: Weight λ ≥ 0; with "partial" 0 is exactly `local` (v̄ does no harm). λ → ∞
            is one model for all.
        variant: Solver of the objective: "partial" or "randomised".
        p: Probability of a step towards the mean, in (0, 1), with "randomised". Its
            paper's best is λ/(L + λ) on curvature L.

    Departs: v̄ is that of the round's beginning, so "randomised" is the published
    method with one step a round and all clients in each; with more steps those towards
    the mean go to one that is a round old, and with some clients to a running mean.
    Communication is not skipped in rounds without a step towards the mean. Running
    statistics of batch normalization are averaged, and not pulled.

    Guarantee: lr·λ ("randomised": lr·λ/p) must stay below what the optimizer can follow
    (2 for `sgd`); more diverges on any data and is refused.
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
