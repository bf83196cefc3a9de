"""Ditto in two stages: first the shared model is trained, then the personal models.

References: li2021ditto.
"""

from troth.client.personalizers._tuned import Keep, Select, tuned
from troth.client.regularizers import _pull
from troth.types import Budget, Descent, Personal, Regularizer, Task


def ditto_finetune(
    task: Task,
    descent: Descent,
    regularizer: Regularizer,
    budget: Budget | None,
    *,
    lam: float = 1.0,
    keep: Keep = "last",
    select: Select = "epoch",
) -> Personal:
    """Fine-tune from w* with a pull towards it: min_v F_k(v) + λR(v, w*).

    F_k is the client's loss, R the regularizer, v the personal model, and w* the final
    shared model. After the last round, every client trains v, starting from v = w*
    (Ditto, Section 3.1 and Appendix G.3). If the objective is strongly convex, v
    converges to the same model as with `ditto`, which trains v and w together. The
    method can be applied to any shared model that is already trained.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        regularizer: Regularizer R.
        budget: Number of steps or epochs; None means 50 epochs, as for `finetune`.
        lam: Weight λ ≥ 0 of the regularizer. 0 is `finetune`; with λ → ∞, v is the
            shared model.
        keep: Model to keep: the "last", or a candidate chosen by the client's
            validation data. "best" has the lowest loss, "accurate" the highest accuracy
            (then the lowest loss). Remaining ties go to the latest candidate. The
            shared model w* is a candidate too, and loses every tie.
        select: Candidates for `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.
    """
    _pull.check("ditto_finetune", lam, descent, regularizer.curvature)
    along = _pull.gradient(task, regularizer, lam)
    return tuned(task, descent, budget, keep, select, along)
