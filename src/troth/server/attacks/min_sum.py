"""Min-Sum: a far update without an unusual sum of squared distances.

References: shejwalkar2021manipulating.
"""

from torch import Tensor

from troth.server.attacks.min_max import Direction, farthest
from troth.types import Messages


def min_sum(
    messages: Messages, hostile: Tensor, *, direction: Direction = "std"
) -> Messages:
    """Send the farthest vector that is no outlier by its sum of squared distances.

    This is the paper's Min-Sum attack on an unknown aggregator: u = μ + γ·p. μ is the
    mean of the k benign updates u_i, p a direction, and γ ≥ 0 the largest number with

        Σ_i ‖u − u_i‖² ≤ max_i Σ_j ‖u_i − u_j‖².

    A single benign update is sent unchanged.

    Threat model: knows all benign updates of the round, not the defense; controls the
    messages of all malicious clients, which act as one.

    Departs: the paper finds γ by bisection. Here γ has a closed form. Let c_i = u_i −
    μ; the sum of all c_i is 0. The left side is k·γ²‖p‖² + Σ‖c_i‖², and the right side
    is k·max‖c_i‖² + Σ‖c_i‖². So γ‖p‖ = max_i ‖c_i‖: in any direction, the distance of u
    from the mean is the largest distance of a benign update from the mean.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        direction: Direction p in which the vector leaves the benign mean μ. "std" is −σ
            (σ the standard deviation of every coordinate), "unit" is −μ/‖μ‖, "sign" is
            −sign(μ).

    Returns:
        The messages, with the malicious updates replaced.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> min_sum(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [1.0]]
    """
    return farthest(messages, hostile, direction, _limit)


def _limit(products: Tensor, along: Tensor) -> Tensor:
    return products.diagonal().max().sqrt()
