"""Fine-tuning that keeps predictions close to those of the shared model.

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
    """Fine-tune from w* with a penalty on predictions that differ from those of w*.

    min_v F_k(v) + (λ/2)(KL(f(v)‖f(w*)) + KL(f(w*)‖f(v))), from v = w* after the last
    round. This is Ditto's baseline Symmetrized KL (F.2, Table 3). It equals
    `ditto_finetune` with the regularizer `kl`, and it ignores `[regularizer]`.

    Departs: the divergence is computed on the batch of the step. The authors' code
    computes it on all data of the client.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer, from `[personalizer]` or from `[train]`.
        budget: Length of the training; None is 50 epochs.
        lam: Weight λ ≥ 0 of the penalty; 0 is `finetune`.
        keep: Model to keep: the "last", or a candidate chosen by the client's
            validation data. "best" has the lowest loss, "accurate" the highest accuracy
            (then the lowest loss). Remaining ties go to the latest candidate. The
            shared model w* is a candidate too, and loses every tie.
        select: Candidates for `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.
    """
    regularizer = kl(task)
    _pull.check("skl", lam, descent, regularizer.curvature)
    return ditto_finetune(
        task, descent, regularizer, budget, lam=lam, keep=keep, select=select
    )
