"""Fine-tuning: the shared model, trained on at every client.

References: li2021ditto.
"""

from troth.client.personalizers._tuned import Keep, Select, tuned
from troth.types import Budget, Descent, Personal, Task


def finetune(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    *,
    keep: Keep = "last",
    select: Select = "epoch",
) -> Personal:
    """After the last round every client trains on from w*: v ← v − η∇F_k(v).

    The baseline of Ditto's Tables 3 and 7–10 and Figures 7–9: `personalizer.steps` or
    `personalizer.epochs` say how long (50 epochs as in the paper, FMTL 30, the authors'
    script 40). Nothing pulls v back, so where w* was poisoned v starts from that.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        budget: Length of the training; None is 50 epochs.
        keep: Model that is kept: the "last", or a candidate chosen by the client's
            validation data. "best" has the lowest loss, "accurate" the highest accuracy
            and, of equal accuracies, the lowest loss. Of candidates still equal, the
            latest is kept. The shared model w* is a candidate that loses every tie.
        select: Candidates of `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.
    """
    return tuned(task, descent, budget, keep, select)
