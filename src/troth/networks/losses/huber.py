"""Huber's loss.

References: huber1964robust.
"""

from torch import Tensor
from torch.nn.functional import huber_loss

from troth.networks.losses._checks import targets
from troth.types import Refusal


def huber(outputs: Tensor, y: Tensor, *, delta: float = 1.0) -> Tensor:
    """Compute ½r² for |r| ≤ δ and δ(|r| − ½δ) beyond, r = f − y: outliers weigh less.

    Args:
        outputs: [b, 1] predictions f.
        y: [b] targets.
        delta: Error δ at which the loss turns from square to linear. A large δ is
            `squared`, a small one δ times `absolute`.

    Returns:
        One value per example, [b].
    """
    if not 0 < delta < float("inf"):
        raise Refusal(f"huber's delta = {delta} must be a positive, finite number")
    f = targets("huber", outputs, y)
    return huber_loss(f, y, reduction="none", delta=delta)
