"""APFL: each client predicts with a mixture of its own model and the shared one.

References: deng2020adaptive, li2020multitask.
"""

from typing import Literal

import torch
from torch import Tensor

from troth.client.personalizers._mixed import mixed, through
from troth.client.personalizers.local import local
from troth.client.personalizers.none import none
from troth.types import Anchor, Batch, Carry, Descent, Personal, Refusal, Task


def apfl(
    task: Task,
    descent: Descent,
    *,
    alpha: float = 0.5,
    adaptive: bool = False,
    mix: Literal["moving", "shared"] = "moving",
) -> Personal:
    """Mix a personal and the shared model: min_v F_k(αv + (1 − α)w).

    F_k is the loss of client k, v its personal model, and w the shared model. A client
    predicts with the mixture v̄ = αv + (1 − α)w, where w is the current shared model.
    APFL's Algorithm 1 trains v by v ← v − η·α∇F_k(v̄) with the learning rate η. Any
    solver can train w. v starts from the first shared model. v is trained in the rounds
    in which its client takes part, on the same batches as the solver.

    In training, v can be mixed with the shared model wᵗ of the round, or with w_k, the
    solver's copy of wᵗ, which changes in every step (option `mix`). With wᵗ, v can make
    up for any w if α > 0. If F_k has a single minimizer, v̄ converges to it, as `local`
    does, whatever w is (Appendix D.1 of FMTL: Li et al. 2020). α then only slows the
    training down, by the factor α². With w_k, the solver moves v̄ nearer to the
    minimizer c of F_k within a round, so that v changes less. For predictions, w
    replaces w_k, so v̄ still depends on w. On a loss of curvature L, after training
    with rounds of τ steps,

        v̄ = c + (1 − α)(1 − Σ_s p_s(1 − ηL)^s)(w − c),

    where p_s ∝ (1 − ηα²L)^(τ−1−s) and Σ_s p_s = 1. For τ = 1, v̄ is c. For τ → ∞, v̄
    tends to αc + (1 − α)w.

    The server learns the solver's update, and nothing about v or α. An attack on w
    changes the predictions of every client, because w has the weight 1 − α in v̄.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        alpha: Mixing weight α from 0 to 1, or its initial value if `adaptive`. A fixed
            1 is exactly `local`; a fixed 0 is exactly the shared model.
        adaptive: Whether every client learns its α. At the first step of a round, α ← α
            − η⟨v − w, ∇F_k(v̄)⟩, clipped to [0, 1]. If the result is NaN, α is not
            changed. The column `alpha` of the file clients.csv shows it.
        mix: Model that v is mixed with in training. "moving" is w_k before the solver's
            current step (the published method). "shared" is wᵗ, the shared model that
            the round began with (Appendix D.1 of FMTL).

    Departs: in the first step of a round, v is mixed with the shared model of this
    round. The code of Ditto's authors still uses that of the previous round. Running
    statistics of batch normalization are not mixed: v holds those of v̄.
    """
    if not 0 <= alpha <= 1:
        raise Refusal(
            f"apfl's alpha = {alpha} must lie in [0, 1]: it is the weight of the "
            "client's own model; 1 is local, 0 the shared model"
        )
    if not adaptive and alpha == 1:
        return local(task, descent)
    if not adaptive and alpha == 0:  # a client without any state would get no file
        return none()._replace(init=lambda w0: (w0.new_zeros(()),))
    tail = task.tail

    def init(w0: Tensor) -> Carry:
        return w0, w0.new_full((), alpha), *descent.init(w0)

    def step(
        state: Carry, anchor: Anchor, batch: Batch, valid: Batch, scale: Tensor
    ) -> Carry:
        v, a, *moments = state
        w = anchor.before if mix == "moving" else anchor.w
        at = mixed(v, w, a, tail, inside=not adaptive)
        g = task.grad(at, batch)
        moved, rest = descent.step(v, through(g, at, v, a, tail), tuple(moments), scale)
        if adaptive:
            head = task.d - tail
            slope = ((v - w)[:head] * g[:head]).sum()
            new = (a - descent.lr * scale * slope).clamp(0, 1)
            a = torch.where((batch.t == 0) & ~new.isnan(), new, a)
        return moved, a, *rest

    def model(w: Tensor, state: Carry) -> Tensor:
        return mixed(state[0], w, state[1], tail)

    made = Personal(init, step, model)
    if not adaptive:
        return made
    return made._replace(columns=("alpha",), tell=lambda state: state[1][None].double())
