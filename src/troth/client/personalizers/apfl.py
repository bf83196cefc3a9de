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
    """Mix each client's own model with the shared model: min_v F_k(αv + (1 − α)w).

    APFL's Algorithm 1 trains v by v ← v − η·α∇F_k(v̄), where v̄ = αv + (1 − α)w is the
    mixture that predicts. Any solver trains w. v starts from the first shared model. It
    moves in the rounds in which its client takes part, on the same batches as the
    solver. For predictions, w in v̄ is the current shared model.

    In training, v can be mixed with the round's wᵗ or with the solver's moving w_k
    (option `mix`). With wᵗ, every α > 0 can reach every v̄. If F_k also has one
    minimizer, v̄ ends there, as `local` does, whatever w is (Appendix D.1 of FMTL: Li
    et al. 2020). α then only slows training down, by the factor α². With w_k, the
    solver brings v̄ nearer to the client's own minimizer c within a round, and v has
    less to do. For predictions, w replaces w_k again, so a share of w remains in v̄. On
    a loss of curvature L, at the end of training with rounds of τ steps,

        v̄ = c + (1 − α)(1 − Σ_s p_s(1 − ηL)^s)(w − c),

    where p_s ∝ (1 − ηα²L)^(τ−1−s) and Σ_s p_s = 1. For τ = 1, v̄ is c. As rounds become
    long, v̄ tends to αc + (1 − α)w.

    The server learns the solver's update and nothing about v or α. w has the weight 1 −
    α in the predictions of every client, so a w that an attack drives away takes v̄
    along.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer, from `[personalizer]` or from `[train]`.
        alpha: Mixing weight α from 0 to 1, or its initial value if `adaptive`. A fixed
            1 is exactly `local`; a fixed 0 is exactly the shared model.
        adaptive: Whether every client learns its own α. At the first step of a round, α
            ← α − η⟨v − w, ∇F_k(v̄)⟩, clipped to [0, 1]. This is a plain step with the
            learning rate and the gradient of v. If the result is NaN, α is not changed.
            The file clients.csv has a column `alpha`.
        mix: Shared model that v is mixed with in training: the "moving" w_k or the
            "shared" wᵗ. w_k is the solver's copy before the current step (the published
            method). wᵗ is the shared model that the round began with (FMTL's D.1).

    Departs: in a round's first step, v is mixed with the w that was just received. In
    the code of Ditto's authors, it is still mixed with the w of the round before.
    Running statistics of batch normalization are not mixed: v holds those of v̄.
    """
    if not 0 <= alpha <= 1:
        raise Refusal(
            f"apfl's alpha = {alpha} must lie in [0, 1]: it is the weight of the "
            "client's own model; 1 is local, 0 the shared model"
        )
    if not adaptive and alpha == 1:
        return local(task, descent)
    if not adaptive and alpha == 0:  # one number of state: clients without get no file
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
