"""Ditto's second solver: the shared model first, the personal ones after it.

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
    """min_v h_k(v; w*) = F_k(v) + λR(v, w*) from v = w*, after the last round.

    Ditto's objective solved in two stages (Section 3.1 and Appendix G.3): where h_k is
    strongly convex it ends where the joint solver `ditto` does. It can be run on any
    shared model that there is.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        regularizer: Distance that is penalized.
        budget: Length of the training; None is 50 epochs, as for `finetune`.
        lam: Weight λ ≥ 0; 0 is `finetune`, λ → ∞ the shared model.
        keep: Model kept: the "last", or one chosen by the client's validation data.
            "best" has the lowest loss, "accurate" the highest accuracy and, of equal
            ones, the lowest loss. Of models still equal the latest is kept. The shared
            model w* is a candidate that loses every tie.
        select: Candidates of `keep`, next to w* and the last model: the models after
            every "epoch" of the client's data, or after every "step".
    """
    _pull.check("ditto_finetune", lam, descent, regularizer.curvature)
    along = _pull.gradient(task, regularizer, lam)
    return tuned(task, descent, budget, keep, select, along)
