"""FedRep: every client first trains its own head, then the shared representation.

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

    The representation φ is shared; every client k has its own head h_k. In a round
    (Algorithm 1 of the paper), a client first trains its head, starting from its last
    head, while the received φ is fixed. Then it trains φ with this head fixed, and
    sends the change of φ. So φ learns to serve heads that are near their best. The
    client predicts with (φ, h_k). Running statistics of batch normalization move only
    while their layer is trained.

    The entries of h_k in the update are 0. Clients ignore these entries of the shared
    model. Only a newcomer starts from them. So the shared model itself has layers that
    were never trained.

    Limits: with no personal layer this is `fedavg`, and with personal layers only it is
    `local`, bit for bit. If the head or φ is empty, its training is skipped.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer of the head, from `[personalizer]` or from
            `[train]`. The moments are kept between rounds.
        solving: Optimizer of φ, from `[train]`. Its moments start anew every round.
        work: Length of the training of φ in a round, by `train.steps` or `.epochs`.
        budget: Length of the training of the head before φ, by `personalizer.steps` or
            `.epochs`. If None, it is as long as that of φ.
        masks: Turns layer names into masks of parameters.
        layers: Names or patterns of the personal layers or tensors, as for
            `model.freeze`. Examples are "fc", "features.*" and "*.bias".
        last: Number of last layers that are personal if `layers` is empty; 0 means
            none.

    Departs: in Algorithm 1, φ takes a single step per round; here it takes as many as
    `[train]` says. Head and φ are trained on different batches. A client that a
    deadline stops early has trained its head, and perhaps nothing else.
    """
    mask = _split.chosen(masks, layers, last)
    works = (budget or work, work)
    return _split.split(task, mask, (descent, solving), works, by_turns=True)
