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
    `personalizer.epochs`. It is the baseline of Ditto's Tables 3 and 7–10 and Figures
    7–9. Ditto has 50 epochs, its authors' script 40, and FMTL 30. Nothing pulls v back
    to w*, but if w* was poisoned, v starts from the poisoned model.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer, from `[personalizer]` or from `[train]`.
        budget: Length of the training; None is 50 epochs.
        keep: Model that is kept: the "last", or a candidate chosen by the client's
            validation data. "best" has the lowest loss, "accurate" the highest accuracy
            and, of equal accuracies, the lowest loss. Of candidates still equal, the
            latest is kept. The shared model w* is a candidate that loses every tie.
        select: Candidates of `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.

    Departs: the authors' code takes max(⌊E · n / B⌋, E) steps for E epochs, n examples
    and batches of B. Here E epochs take E times the number of batches, so that every
    epoch uses every example (with `train.drop_last`: every full batch). Set
    `personalizer.count = "examples"` for the authors' number.
    """
    return tuned(task, descent, budget, keep, select)
