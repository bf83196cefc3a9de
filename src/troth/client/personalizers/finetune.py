"""Fine-tuning: the shared model, trained on at every client.

References: li2021ditto.
"""

from troth.client.personalizers._tuned import Keep, tuned
from troth.types import Budget, Descent, Personal, Task


def finetune(
    task: Task, descent: Descent, budget: Budget | None, *, keep: Keep = "last"
) -> Personal:
    """After the last round every client trains on from w*: v ← v − η∇F_k(v).

    The baseline of Ditto's Tables 3 and 7–10 and Figures 7–9: `personalizer.steps` or
    `personalizer.epochs` say how long (50 epochs as in the paper, FMTL 30, the authors'
    script 40). Nothing pulls v back, so where w* was poisoned v starts from that.

    Args:
        task: the client's problem.
        descent: its own learning rate and optimizer, or those of `[train]`.
        budget: how long; None is 50 epochs.
        keep: "last", or "best" or "accurate": the model on the way with the lowest
            loss or highest accuracy on the client's validation data, the shared one
            among them.
    """
    return tuned(task, descent, budget, keep)
