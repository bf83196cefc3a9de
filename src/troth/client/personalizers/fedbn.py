"""FedBN: every client has its own normalization layers.

References: li2021fedbn.
"""

from troth.client.personalizers import _split
from troth.networks.flat import Masks
from troth.types import Budget, Client, Descent, Task


def fedbn(
    task: Task,
    descent: Descent,
    solving: Descent,
    work: Budget,
    budget: Budget | None,
    masks: Masks,
) -> Client:
    """Keep normalization layers b_k personal and share all others: min Σ_k F_k(φ, b_k).

    All other layers, φ, are shared, and both are trained as in `fedper`. b_k consists
    of the scale, shift and running statistics of every batch normalization (Algorithm 1
    of the paper), and the scale and shift of every other normalization layer that is
    trained. If a client never took part, its b_k is that of the first shared model.

    The entries of b_k in the update are 0, so there are no running statistics to
    aggregate, and `train.statistics` has no effect. Clients ignore these entries of the
    shared model. Only a newcomer starts from them. The shared model keeps its initial
    running statistics (mean 0, variance 1).

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer of b_k, from `[personalizer]` or else from
            `[train]`. The moments are kept between rounds.
        solving: Optimizer of φ, from `[train]`. Its moments start anew every round.
        work: Length of a client's training in a round.
        budget: Length of the training of b_k, if `personalizer.steps` or `.epochs` is
            set.
        masks: Masks of the personal and the shared parameters.

    Departs: the paper considers batch normalization alone.
    """
    works = (budget or work, work)
    return _split.split(task, masks.norms(), (descent, solving), works)
