"""FedBN: normalization layers of the client's own.

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
    """Keep normalization layers b_k of the client's own: min Σ_k F_k(φ, b_k).

    All others, φ, are shared, and both are trained as `fedper` does it. Personal are
    scale, shift and running statistics of every batch normalization (Algorithm 1 of the
    paper), and scale and shift of every other normalization that the model trains. A
    client that was never asked has those of the first shared model.

    The update is 0 in the places of b_k, so that there are no statistics to aggregate
    (`train.statistics` has nothing to do), and no client that takes part reads what
    others send there (a newcomer starts from it). The shared model by itself keeps the
    statistics it began with (mean 0, variance 1).

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer of b_k, or those of `[train]`. The
            moments live on between rounds.
        solving: Optimizer of φ, from `[train]`; its moments start anew every round.
        work: Length of a client's training in a round.
        budget: How long b_k is trained, if `personalizer.steps` or `.epochs` is set.
        masks: Masks of the personal and the shared parameters.

    Departs: the paper has batch normalization alone in mind.
    """
    works = (budget or work, work)
    return _split.split(task, masks.norms(), (descent, solving), works)
