"""Fine-tuning on batches that draw every group of examples equally often.

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
    """Fine-tune on batches that draw every group of a client's examples equally often.

    Groups are, for example, the examples that agree with a shortcut and those that
    conflict with it. This is the baseline UW of Wang et al. 2021 (Section 4.2), after
    Sagawa et al. 2020 (Section 3.3, importance weighting). After the last round, every
    client trains the final shared model w* further, as with `finetune`. But each
    example of a batch is drawn at random, with replacement. First one of the client's
    groups is drawn, all equally likely, then one of the group's examples. If a client
    has m examples in G groups, of which m_g are in group g, an example of group g is
    drawn m/(G·m_g) times per epoch on average. An epoch has the same number of steps as
    in `finetune`.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        budget: Number of steps or epochs; None means 50 epochs.
        groups: Groups of the training examples.
        keep: Model to keep: the "last", or a candidate chosen by the client's
            validation data. "best" has the lowest loss, "accurate" the highest accuracy
            (then the lowest loss). Remaining ties go to the latest candidate. The
            shared model w* is a candidate too, and loses every tie. In the validation
            data, groups have their natural proportions.
        select: Candidates for `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.
        without: Treatment of clients whose examples are all of one group: "refuse"
            stops with an error, "finetune" trains them exactly as `finetune` does.
    """
    check_groups("upweight", groups, without)
    return tuned(task, descent, budget, keep, select, by_group=True)
