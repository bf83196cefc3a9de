"""FedPer: every client has its own layers on top of shared layers.

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
    """Keep some layers h_k personal and share all others: min Σ_k F_k(φ, h_k).

    In a round, a client joins its h_k with the shared layers φ that the server sent. It
    takes steps along the gradient of both at once (Algorithm 1 of the paper, client's
    side) and sends the change of φ. It predicts with (φ, h_k). h_k starts as in the
    first shared model and moves only in the rounds in which its client takes part.
    Running statistics of batch normalization belong to their layer: in a personal layer
    they are personal, else they are averaged with the rest.

    The entries of h_k in the update are 0. Clients ignore these entries of the shared
    model. Only a newcomer starts from them. So the shared model itself has layers that
    were never trained.

    Limits: with no personal layer this is `fedavg`, and with personal layers only it is
    `local`, bit for bit.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer of h_k, from `[personalizer]` or else from
            `[train]`. The moments are kept between rounds.
        solving: Optimizer of φ, from `[train]`. Its moments start anew every round.
        work: Length of a client's training in a round.
        budget: Length of the training of h_k, if `personalizer.steps` or `.epochs` is
            set.
        masks: Turns layer names into masks of parameters.
        layers: Names or patterns of the personal layers or tensors, as for
            `model.freeze`. Examples are "fc", "features.*" and "*.bias".
        last: Number of last layers that are personal if `layers` is empty (K_P in the
            paper). 0 means none. If the model has a single layer, 1 makes all of it
            personal.

    Departs: the paper steps by plain SGD, which has no moments to keep or to reset.
    """
    mask = _split.chosen(masks, layers, last)
    return _split.split(task, mask, (descent, solving), (budget or work, work))
