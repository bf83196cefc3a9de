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

    The objective is minimized over the personal models v_k of all n clients (Hanzely
    and Richtárik). F_k is the loss of client k, and v̄ the mean of all v_k:

        min (1/n) Σ_k F_k(v_k) + (λ/2)‖v_k − v̄‖²

    "partial" is the variant in the experiments of Ditto (Appendix F.2). Every step is v
    ← v − η(∇F_k(v) + λ(v − v̄)) with the learning rate η. Here v̄ is the shared model
    of the round, which is fixed. The server keeps a running mean: v̄ ← v̄ + (cohort
    size/n)·mean(v_k − v̄).

    "randomised" is the published method (loopless local gradient descent, L2GD). In
    every step, with probability p, all clients take v ← v − (ηλ/p)(v − v̄). Otherwise
    all clients take v ← v − (η/(1 − p))∇F_k(v). The expectation of this random step is
    the step of "partial". With a constant η, the models end in a neighborhood of the
    minimizer; with a decreasing η, they converge to it.

    The server learns every client's personal model, because the update is (cohort
    size/n)·(v_k − v̄). A single malicious update changes v̄, towards which all models
    are pulled. In `ditto`, in contrast, they are pulled towards a model that is trained
    separately.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        budget: Number of steps or epochs in a round, if `[personalizer]` sets it.
        work: The same, as set by `[train]`; used if `budget` is None.
        share: Size of a cohort, divided by the number of clients.
        lam: Weight λ ≥ 0 of the pull. With "partial", 0 is exactly `local`, and v does
            not depend on v̄. With λ → ∞, all clients have the same model.
        variant: "partial" (every step descends on both terms) or "randomised" (a step
            on the loss or a step towards the mean, at random), see above.
        p: Probability of a step towards the mean, in (0, 1), for "randomised". The best
            value according to its paper is λ/(L + λ) on a loss of curvature L.

    Departs: v̄ is the mean at the beginning of the round. So "randomised" is the
    published method only if all clients take part in every round, with one step each.
    With more steps, v̄ is outdated after the first step. If only some clients take
    part, v̄ is a running mean. Clients communicate in every round, also if no step of
    the round goes towards the mean. Running statistics of batch normalization are
    averaged and not pulled.

    Guarantee: lr·λ ("randomised": lr·λ/p) must be below the optimizer's limit of
    stability (2 for `sgd`). With larger values, the steps diverge on any data, and
    Refusal is raised.
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
