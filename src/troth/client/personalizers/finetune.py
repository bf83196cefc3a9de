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
    """Train the shared model w* further at every client: v ← v − η∇F_k(v).

    The training begins after the last round and lasts `personalizer.steps` or
    `personalizer.epochs`. Fine-tuning is the baseline of Ditto's Tables 3 and 7–10 and
    Figures 7–9. The Ditto paper trains for 50 epochs, its authors' script for 40, and
    FMTL (Li et al. 2020) for 30. Nothing pulls v back to w*, but if w* was poisoned, v
    starts from the poisoned model.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer, from `[personalizer]` or from `[train]`.
        budget: Length of the training; None is 50 epochs.
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
