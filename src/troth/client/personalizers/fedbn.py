"""FedBN: every client has personal normalization layers.

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

    F_k is the loss of client k, and φ are the shared layers. b_k and φ are trained as
    the personal and shared layers of `fedper`. b_k consists of the scale, shift and
    running statistics of every batch normalization (Algorithm 1 of the paper), and of
    the scale and shift of every other normalization layer that is trained. If a client
    never took part, its b_k is that of the first shared model.

    The entries of b_k in the update are 0. So no running statistics are aggregated, and
    `train.statistics` has no effect. Clients ignore these entries of the shared model,
    except that a client that joins after training starts from them. The shared model
    keeps its initial running statistics (mean 0, variance 1).

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer of b_k, from `[personalizer]` or else from
            `[train]`. The moments are kept between rounds.
        solving: Optimizer of φ, from `[train]`. Its moments start anew every round.
        work: Number of steps or epochs in a round.
        budget: Number of steps or epochs of b_k in a round, if `personalizer.steps` or
            `.epochs` is set; None means `work`.
        masks: Finds the parameters of normalization layers.

    Departs: the paper considers batch normalization alone.
    """
    works = (budget or work, work)
    return _split.split(task, masks.norms(), (descent, solving), works)
