"""Fine-tuning on batches in which every group has the same share.

References: sagawa2020distributionally, wang2021robust.
"""

from troth.client.personalizers._tuned import (
    Keep,
    Select,
    Without,
    check_groups,
    tuned,
)
from troth.types import Budget, Descent, Groups, Personal, Task


def upweight(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    groups: Groups | None = None,
    *,
    keep: Keep = "last",
    select: Select = "epoch",
    without: Without = "refuse",
) -> Personal:
    """Fine-tuning with aligned and conflicting examples drawn with equal probability.

    The baseline UW of Wang et al. 2021 (section 4.2), after Sagawa et al. 2020 (section
    3.3, importance weighting). After the last round every client trains on from w* as
    with `finetune`, but each example of a batch is drawn anew, with replacement: first
    its group, all that the client has being equally likely, then one of these. On
    average an example of a group of m_g out of m, one of G groups, so counts m/(G·m_g)
    times. An epoch has as many steps as ever.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        budget: Length of the training; None is 50 epochs.
        groups: Groups of the training examples.
        keep: Model kept: the "last", or one chosen by the client's validation data.
            "best" has the lowest loss, "accurate" the highest accuracy and, of equal
            ones, the lowest loss. Of models still equal the latest is kept. The shared
            model w* is a candidate that loses every tie. Groups count by their
            shares of the validation data.
        select: Candidates of `keep`, next to w* and the last model: the models after
            every "epoch" of the client's data, or after every "step".
        without: Clients with examples of one group only: "refuse" or "finetune" them.
            The latter is exactly `finetune`.
    """
    check_groups("upweight", groups, without)
    return tuned(task, descent, budget, keep, select, by_group=True)
