"""The attack that is no farther from a benign row than two of these from each other.

References: shejwalkar2021manipulating.
"""

from torch import Tensor

from troth.server.attacks import _spread
from troth.types import Messages


def min_max(
    messages: Messages, hostile: Tensor, *, direction: _spread.Direction = "std"
) -> Messages:
    """Send the farthest vector that is no outlier by distance.

    u = μ + γ·p (the paper's Min-Max attack, which knows no aggregator), where μ is the
    mean of the k benign rows, p a direction, and γ ≥ 0 the largest with

        max_i ‖u − u_i‖ ≤ max_ij ‖u_i − u_j‖.

    A single benign row is sent as it is.

    Threat model: knows all benign updates of the round, not the defence; controls the
    messages of all malicious clients, which act as one.

    Departs: the paper halves its way to γ; each condition is a quadratic in γ, solved
    here: with c_i = u_i − μ, e = p/‖p‖ and D the right side, γ‖p‖ = min_i { e·c_i +
    √((e·c_i)² + D² − ‖c_i‖²) }.

    Args:
        messages: one update per client.
        hostile: [n] mask of malicious clients.
        direction: p: "std" is −σ, "unit" −μ/‖μ‖, "sign" −sign(μ).

    Returns:
        The messages, with attacked updates.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> min_max(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [1.0]]
    """
    return _spread.farthest(messages, hostile, direction, _limit)


def _limit(products: Tensor, along: Tensor) -> Tensor:
    """Solve for γ‖p‖; centered rows keep D² = max (c_i² + c_j² − 2c_i·c_j) precise."""
    squares = products.diagonal()
    widest = (squares[:, None] + squares - 2 * products).max()
    room = (widest - squares).clamp(min=0)
    return (along + (along.square() + room).sqrt()).min()
