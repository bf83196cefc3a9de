"""Huber's loss.

References: huber1964robust.
"""

from torch import Tensor
from torch.nn.functional import huber_loss

from troth.networks.losses._checks import targets
from troth.types import Refusal


def huber(outputs: Tensor, y: Tensor, *, delta: float = 1.0) -> Tensor:
    """Compute Huber's loss: ½r² for |r| ≤ δ, δ(|r| − ½δ) for |r| > δ, with r = f − y.

    Outliers have less influence than with `squared`.

    Args:
        outputs: [b, 1] predictions f.
        y: [b] targets.
        delta: Error δ > 0 above which the loss is linear. With δ → ∞, it is `squared`;
            with δ → 0, it is δ times `absolute`.

    Returns:
        One value per example, [b].
    """
    if not 0 < delta < float("inf"):
        raise Refusal(f"huber's delta = {delta} must be a positive, finite number")
    f = targets("huber", outputs, y)
    return huber_loss(f, y, reduction="none", delta=delta)
