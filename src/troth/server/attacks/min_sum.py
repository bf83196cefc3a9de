"""The attack whose distances to the benign rows sum to no more than one of theirs.

References: shejwalkar2021manipulating.
"""

from torch import Tensor

from troth.server.attacks.min_max import Direction, farthest
from troth.types import Messages


def min_sum(
    messages: Messages, hostile: Tensor, *, direction: Direction = "std"
) -> Messages:
    """Send the farthest vector that is no outlier by its sum of squared distances.

    u = μ + γ·p (the paper's Min-Sum attack, which knows no aggregator), where μ is the
    mean of the k benign rows, p a direction, and γ ≥ 0 the largest with

        Σ_i ‖u − u_i‖² ≤ max_i Σ_j ‖u_i − u_j‖².

    A single benign row is sent as it is.

    Threat model: knows all benign updates of the round, not the defense; controls the
    messages of all malicious clients, which act as one.

    Departs: the paper halves its way to γ. With c_i = u_i − μ, whose sum is 0, the left
    side is k·γ²‖p‖² + Σ‖c_i‖² and the right one k·max‖c_i‖² + Σ‖c_i‖², so γ‖p‖ = max_i
    ‖c_i‖: as far from the mean as the farthest benign row, in any direction.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        direction: Direction p: "std" is −σ, "unit" −μ/‖μ‖, "sign" −sign(μ).

    Returns:
        The messages, with attacked updates.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> min_sum(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [1.0]]
    """
    return farthest(messages, hostile, direction, _limit)


def _limit(products: Tensor, along: Tensor) -> Tensor:
    return products.diagonal().max().sqrt()
