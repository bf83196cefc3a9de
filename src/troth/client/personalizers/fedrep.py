"""FedRep: a head of the client's own, trained first, on a shared representation.

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
    """min_φ Σ_k min_{h_k} F_k(h_k ∘ φ): the representation φ is shared, heads are not.

    In a round (Algorithm 1 of the paper) a client first moves its head, from where it
    left it, with φ fixed as it was sent; then φ with that head fixed; and sends how φ
    moved. So φ learns to serve heads that are near their best. It predicts with
    (φ, h_k). Running statistics of batch normalization move with their layer, in its
    turn.

    The update is 0 in the places of h_k, and no client that takes part reads what
    others send there (a newcomer's h_k starts from it). So the shared model by itself
    has layers that nobody trained.

    Limits: with nothing personal `fedavg`, with all `local`, bit for bit: where one of
    the two turns has nothing to move it is left out.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer of the head, or those of `[train]`. The
            moments live on between rounds.
        solving: Optimizer of φ, from `[train]`; its moments start anew every round.
        work: How long φ is trained in a round, `train.steps` or `.epochs`.
        budget: How long the head is trained before φ, by `personalizer.steps` or
            `.epochs`; None: as long as φ.
        masks: Turns layer names into masks of parameters.
        layers: Names or patterns of the personal layers or tensors, as for
            `model.freeze`. Examples are "fc", "features.*" and "*.bias".
        last: Number of last layers that are personal if none are named.

    Departs: in Algorithm 1 φ takes a single step a round; here as many as `[train]`
    says. The two turns see different batches, one after the other. A client whose
    deadline comes early has moved its head, and perhaps nothing else.
    """
    mask = _split.chosen(masks, layers, last)
    works = (budget or work, work)
    return _split.split(task, mask, (descent, solving), works, by_turns=True)
