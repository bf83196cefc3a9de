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
    """Normalization layers b_k of the client's own: min Σ_k F_k(φ, b_k).

    All others, φ, are shared, and both are trained as `fedper` does it. Personal are
    scale, shift and running statistics of every batch normalization (Algorithm 1 of the
    paper), and scale and shift of every other normalization that the model trains. A
    client that was never asked has those of the first shared model.

    The update is 0 in the places of b_k, so that there are no statistics to aggregate
    (`train.statistics` has nothing to do), and no client that takes part reads what
    others send there (a newcomer starts from it). The shared model by itself keeps the
    statistics it began with (mean 0, variance 1).

    Args:
        task: the client's problem.
        descent: how b_k moves: by `personalizer.lr` and `.optimizer`, or as in
            `[train]`; its moments live on between rounds.
        solving: how φ moves: as in `[train]`; its moments start anew every round.
        work: how long a client works in a round.
        budget: how long b_k moves, where `personalizer.steps` or `.epochs` say so.
        masks: which numbers are whose.

    Departs: the paper has batch normalization alone in mind.
    """
    works = (budget or work, work)
    return _split.split(task, masks.norms(), (descent, solving), works)
