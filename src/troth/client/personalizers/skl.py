"""Fine-tuning that keeps predictions near those of the shared model.

References: yu2020salvaging.
"""

from troth.client.personalizers._tuned import Keep, Select
from troth.client.personalizers.ditto_finetune import ditto_finetune
from troth.client.regularizers import _pull
from troth.client.regularizers.kl import kl
from troth.types import Budget, Descent, Personal, Task


def skl(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    *,
    lam: float = 1.0,
    keep: Keep = "last",
    select: Select = "epoch",
) -> Personal:
    """min_v F_k(v) + (λ/2)(KL(f(v)‖f(w*)) + KL(f(w*)‖f(v))) from v = w*, at the end.

    Ditto's baseline Symmetrized KL (F.2, Table 3): `ditto_finetune` with the
    regularizer `kl`, whatever `[regularizer]` says.

    Departs: the divergence is taken on the batch of the step; the authors' code takes
    it on all data of the client.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        budget: Length of the training; None is 50 epochs.
        lam: Weight λ ≥ 0 of the penalty; 0 is `finetune`.
        keep: Model kept: the "last", or one chosen by the client's validation data.
            "best" has the lowest loss, "accurate" the highest accuracy and, of equal
            ones, the lowest loss. Of models still equal the latest is kept. The shared
            model w* is a candidate that loses every tie.
        select: Candidates of `keep`, next to w* and the last model: the models after
            every "epoch" of the client's data, or after every "step".
    """
    regularizer = kl(task)
    _pull.check("skl", lam, descent, regularizer.curvature)
    return ditto_finetune(
        task, descent, regularizer, budget, lam=lam, keep=keep, select=select
    )
