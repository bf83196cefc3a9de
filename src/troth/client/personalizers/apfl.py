"""APFL: a client's model lies between its own and the shared one.

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
    """min_v F_k(αv + (1 − α)w), with any solver for w; the mixture predicts.

    APFL's Algorithm 1: v ← v − η·α∇F_k(v̄), v̄ = αv + (1 − α)w. v starts from the first
    shared model and moves in the rounds in which its client is asked, on the solver's
    batches. When v̄ is used to predict, w is the current shared model.

    What mixing with the moving w_k changes: where w is held fixed, any α > 0 can reach
    every v̄, and where F_k has one minimizer v̄ ends there, where `local` does, whatever
    w is (FMTL's D.1); α only slows it down, by α². With w_k, the solver brings v̄ nearer
    to the client's own minimizer c within a round, v is left with less to do, and when
    v̄ is read with w again, a share of w stays. On curvature L, at the end of training
    with rounds of τ steps, v̄ = c + (1 − α)(1 − Σ_s p_s(1 − ηL)^s)(w − c), where p_s ∝
    (1 − ηα²L)^(τ−1−s), Σ_s p_s = 1: from c at τ = 1 to αc + (1 − α)w in long rounds.

    The server learns the solver's update and nothing of v or α. w weighs 1 − α in what
    every client predicts: a w that was driven off takes v̄ along.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        alpha: Mixing weight α, 0 to 1, or its start if `adaptive`. Fixed at 1 it is
            exactly `local`, at 0 exactly the shared model.
        adaptive: Whether every client learns its own α. At the first step of a round α
            ← α − η⟨v − w, ∇F_k(v̄)⟩, by the same gradient that moves v and with plain
            steps of its learning rate, kept in [0, 1]; clients.csv has `alpha`. α stays
            where that is not a number.
        mix: Model mixed with v: the "moving" w_k or the "shared" wᵗ. w_k is the
            solver's copy before this step (the published method), wᵗ is as in FMTL's
            D.1.

    Departs: a round's first v̄ is mixed with the w just received; the code of Ditto's
    authors still has the last round's there. Running statistics of batch normalization
    are not mixed: v has those of v̄.
    """
    if not 0 <= alpha <= 1:
        raise Refusal(
            f"apfl's alpha = {alpha} must lie in [0, 1]: how much of a client's model "
            "is its own; 1 is local, 0 the shared model"
        )
    if not adaptive and alpha == 1:
        return local(task, descent)
    if not adaptive and alpha == 0:  # some state: a client that keeps none has no file
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
