"""Fine-tuning on batches in which every group has the same share.

References: sagawa2020distributionally, wang2021robust.
"""

from troth.client.personalizers._tuned import Keep, Without, check_groups, tuned
from troth.types import Budget, Descent, Groups, Personal, Task


def upweight(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    groups: Groups | None = None,
    *,
    keep: Keep = "last",
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
        task: the client's problem.
        descent: its own learning rate and optimizer, or those of `[train]`.
        budget: how long; None is 50 epochs.
        groups: of the training examples.
        keep: "last", or "best" or "accurate": the model on the way with the lowest
            loss or highest accuracy on the client's validation data, in the shares that
            these have.
        without: "refuse" clients that have examples of one group only, or "finetune"
            them, exactly as `finetune` does.
    """
    check_groups("upweight", groups, without)
    return tuned(task, descent, budget, keep, by_group=True)
