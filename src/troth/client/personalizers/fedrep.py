"""FedRep: a client first trains its personal head, then the shared representation.

References: collins2021exploiting.
"""

from troth.client.personalizers import _split
from troth.networks.flat import Masks
from troth.types import Budget, Client, Descent, Task


def fedrep(
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
    """Train a personal head, then the shared layers: min_φ Σ_k min_{h_k} F_k(h_k ∘ φ).

    F_k is the loss of client k, h_k its head (the last layers), and φ the shared
    representation (all other layers). In a round (Algorithm 1 of the paper), a client
    first trains its head, starting from its last head, while the received φ is fixed.
    Then it trains φ with this head fixed, and sends the change of φ. So φ is trained
    for heads that are nearly optimal. The client predicts with (φ, h_k). Running
    statistics of batch normalization change only while their layer is trained.

    The entries of h_k in the update are 0. So these layers of the shared model are
    never trained. Clients ignore them, except that a client that joins after training
    starts from them.

    Limits: with no personal layer this is `fedavg`, and with personal layers only it is
    `local`, bit for bit. If the head or φ is empty, its training is skipped.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer of the head, from `[personalizer]` or from
            `[train]`. The moments are kept between rounds.
        solving: Optimizer of φ, from `[train]`. Its moments start anew every round.
        work: Number of steps or epochs of φ in a round: `train.steps` or
            `train.epochs`.
        budget: Number of steps or epochs of the head in a round: `personalizer.steps`
            or `.epochs`; None means `work`.
        masks: Turns layer names into masks of parameters.
        layers: Names or patterns of the personal layers or tensors, as for
            `model.freeze`. Examples are "fc", "features.*" and "*.bias".
        last: Number of last layers that are personal if `layers` is empty; 0 means
            none.

    Departs: in Algorithm 1, φ takes one step per round; here `[train]` sets the number.
    Head and φ are trained on different batches. If a deadline stops a client early, it
    may have trained its head only.
    """
    mask = _split.chosen(masks, layers, last)
    works = (budget or work, work)
    return _split.split(task, mask, (descent, solving), works, by_turns=True)
