"""Elastic weight consolidation: fine-tuning that changes important weights least.

References: kirkpatrick2017overcoming.
"""

import torch

from troth import numerics
from troth.client.personalizers._tuned import EPOCHS, at_the_end, kept
from troth.client.regularizers import _pull
from troth.types import (
    Batch,
    Broadcast,
    Budget,
    Carry,
    Descent,
    Personal,
    Phase,
    Refusal,
    Task,
)


def ewc(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    *,
    lam: float = 1.0,
    batches: int = 4,
) -> Personal:
    """Fine-tune from w* on F_k(v) + (λ/2)·Σ_i F_i·(v_i − w*_i)² after the last round.

    This is the baseline EWC of Ditto (Appendix F.2, Table 3). F_k is the client's loss,
    v the personal model, and w* the final shared model. F_i is an estimate of the
    diagonal of the Fisher matrix at w*: the mean of squared gradients over `batches`
    batches. As in the code of Ditto's authors, v is not trained on these batches, and
    the number of steps does not include them. So λ = 0 is `finetune` on the batches
    that follow.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        budget: Number of steps or epochs after the batches for F_i; None means 50
            epochs.
        lam: Weight λ ≥ 0 of the penalty; 0 is fine-tuning without a penalty.
        batches: Number of batches from which F_i is estimated, at least 1. The authors'
            code takes 4.
    """
    _pull.check("ewc", lam, descent)
    if batches < 1:
        raise Refusal(
            f"ewc's batches = {batches} must be at least 1; the authors have 4"
        )

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        w = broadcast.w
        return w, torch.zeros_like(w), *descent.init(w)

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        v, root, *moments = carry  # root is √F, because F could overflow
        g = task.grad(v, batch)
        seen = root.hypot(numerics.off_tail(g, task.tail) / batches**0.5)
        if lam:
            g = _pull.plus(g, root * (root * (v - broadcast.w)), lam)
        moved, rest = descent.step(v, g, tuple(moments), broadcast.scale)
        measuring = batch.t < batches
        pairs = zip((v, seen, *moments), (moved, root, *rest), strict=True)
        return tuple(torch.where(measuring, still, on) for still, on in pairs)

    whole = budget or EPOCHS
    whole = whole._replace(steps=whole.steps + batches)
    return at_the_end(
        Phase(
            begin,
            step,
            lambda broadcast, carry, state, valid: kept(carry[0], broadcast, state),
            (whole,),
        )
    )
