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
        task: Task of the client.
        descent: Own learning rate and optimizer of h_k, or those of `[train]`. The
            moments live on between rounds.
        solving: Optimizer of φ, from `[train]`; its moments start anew every round.
        work: Length of a client's training in a round.
        budget: How long h_k is trained, if `personalizer.steps` or `.epochs` is set.
        masks: Turns layer names into masks of parameters.
        layers: Names or patterns of the personal layers or tensors, as for
            `model.freeze`. Examples are "fc", "features.*" and "*.bias".
        last: Number of last layers that are personal if none are named (K_P in the
            paper); 0: none. A model of a single layer is all personal with 1.

    Departs: the paper steps by plain SGD, which has no moments to keep or to forget.
    """
    mask = _split.chosen(masks, layers, last)
    return _split.split(task, mask, (descent, solving), (budget or work, work))
