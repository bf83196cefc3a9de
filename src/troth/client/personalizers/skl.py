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

    min_v F_k(v) + (λ/2)(KL(f(v)‖f(w*)) + KL(f(w*)‖f(v))), starting from v = w* after
    the last round. F_k is the client's loss, v its personal model, w* the final shared
    model, and f the predicted probabilities. This is the baseline Symmetrized KL of
    Ditto (Appendix F.2, Table 3). It equals `ditto_finetune` with the regularizer `kl`,
    and it ignores `[regularizer]`.

    Departs: KL is computed on the batch of the step. The authors' code computes it on
    all data of the client.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        budget: Number of steps or epochs; None means 50 epochs.
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
