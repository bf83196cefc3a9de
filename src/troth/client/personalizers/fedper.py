"""FedPer: layers of the client's own on top of shared ones.

References: arivazhagan2019federated.
"""

from troth.client.personalizers import _split
from troth.networks.flat import Masks
from troth.types import Budget, Client, Descent, Task


def fedper(
    task: Task,
    descent: Descent,
    solving: Descent,
    work: Budget,
    budget: Budget | None,
    masks: Masks,
    *,
    layers: list[str] = [],  # noqa: B006
    last: int = 1,
) -> Client:
    """Shared layers φ, and layers h_k of the client's own: min Σ_k F_k(φ, h_k).

    A client puts its h_k to the φ it is sent, steps along the gradient of both at once
    (Algorithm 1 of the paper, client's side) and sends how φ moved. It predicts with
    (φ, h_k). h_k starts as in the first shared model and moves only in the rounds in
    which its client is asked. Running statistics of batch normalization belong to
    their layer: personal in a personal layer, else averaged with the rest.

    The update is 0 in the places of h_k, and no client that takes part reads what
    others send there (a newcomer's h_k starts from it). So the shared model by itself
    has layers that nobody trained.

    Limits: with nothing personal `fedavg`, with all `local`, bit for bit.

    Args:
        task: the client's problem.
        descent: how h_k moves: by `personalizer.lr` and `.optimizer`, or as in
            `[train]`; its moments live on between rounds.
        solving: how φ moves: as in `[train]`; its moments start anew every round.
        work: how long a client works in a round.
        budget: how long h_k moves, where `personalizer.steps` or `.epochs` say so.
        masks: which numbers are whose.
        layers: what is personal: names of layers or tensors, or patterns of such
            ("fc", "features.*", "*.bias"), as `model.freeze` takes them.
        last: where no layers are named, how many of the last ones are personal
            (K_P in the paper); 0 is none of them. A model of a single layer is all
            personal with 1.

    Departs: the paper steps by plain SGD, which has no moments to keep or to forget.
    """
    mask = _split.chosen(masks, layers, last)
    return _split.split(task, mask, (descent, solving), (budget or work, work))
