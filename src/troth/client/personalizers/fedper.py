"""FedPer: every client has personal layers on top of shared layers.

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

    F_k is the loss of client k, and φ are the shared layers. In a round, a client joins
    its h_k with the φ that the server sent. It takes steps along the gradient in both
    at once (Algorithm 1 of the paper, client's side) and sends the change of φ. It
    predicts with (φ, h_k). h_k starts as in the first shared model and is trained only
    in the rounds in which its client takes part. Running statistics of batch
    normalization are personal if their layer is personal; otherwise the server averages
    them.

    The entries of h_k in the update are 0. So these layers of the shared model are
    never trained. Clients ignore them, except that a client that joins after training
    starts from them.

    Limits: with no personal layer this is `fedavg`, and with personal layers only it is
    `local`, bit for bit.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer of h_k, from `[personalizer]` or else from
            `[train]`. The moments are kept between rounds.
        solving: Optimizer of φ, from `[train]`. Its moments start anew every round.
        work: Number of steps or epochs in a round.
        budget: Number of steps or epochs of h_k in a round, if `personalizer.steps` or
            `.epochs` is set; None means `work`.
        masks: Turns layer names into masks of parameters.
        layers: Names or patterns of the personal layers or tensors, as for
            `model.freeze`. Examples are "fc", "features.*" and "*.bias".
        last: Number of last layers that are personal if `layers` is empty (K_P in the
            paper). 0 means none. If the model has a single layer, 1 makes all of it
            personal.

    Departs: the paper uses plain SGD, which has no moments.
    """
    mask = _split.chosen(masks, layers, last)
    return _split.split(task, mask, (descent, solving), (budget or work, work))
