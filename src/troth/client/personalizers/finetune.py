"""Fine-tuning: every client trains the final shared model further on its data.

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
    """Train the shared model w* further at every client: v ← v − η∇F_k(v).

    F_k is the client's loss, η the learning rate, and v the personal model, which
    starts from w*. The training begins after the last round and takes
    `personalizer.steps` or `personalizer.epochs`. Fine-tuning is the baseline of
    Ditto's Tables 3 and 7–10 and Figures 7–9. The Ditto paper trains for 50 epochs, its
    authors' script for 40, and FMTL (Li et al. 2020) for 30. v is not pulled back to
    w*. But if w* was poisoned, v starts from the poisoned model.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        budget: Number of steps or epochs; None means 50 epochs.
        keep: Model to keep: the "last", or a candidate chosen by the client's
            validation data. "best" has the lowest loss, "accurate" the highest accuracy
            (then the lowest loss). Remaining ties go to the latest candidate. The
            shared model w* is a candidate too, and loses every tie.
        select: Candidates for `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.

    Departs: the authors' code takes max(⌊E · n / B⌋, E) steps for E epochs, n examples
    and batches of B. Here E epochs take E times the number of batches, so that every
    epoch uses every example (with `train.drop_last`: every full batch). Set
    `personalizer.count = "examples"` for the authors' number.
    """
    return tuned(task, descent, budget, keep, select)
