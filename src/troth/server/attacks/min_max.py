"""Min-Max: a far update without an unusual distance to any benign update.

References: shejwalkar2021manipulating.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages

Direction = Literal["std", "unit", "sign"]

Limit = Callable[[Tensor, Tensor], Tensor]
"""Function that returns the largest allowed distance t from the mean along a unit
vector e. Its arguments are the inner products of the deviations c_i = u_i − mean with
each other [k, k], and with e [k]."""


def min_max(
    messages: Messages, hostile: Tensor, *, direction: Direction = "std"
) -> Messages:
    """Send the vector farthest from the mean that is no outlier by its distances.

    This is the paper's Min-Max attack on an unknown aggregator: u = μ + γ·p. μ is the
    mean of the k benign updates u_i, p a direction, and γ ≥ 0 the largest number with

        max_i ‖u − u_i‖ ≤ max_ij ‖u_i − u_j‖.

    A single benign update is sent unchanged.

    Threat model: knows all benign updates of the round, not the defense; controls the
    messages of all malicious clients, which act as one.

    Departs: the paper finds γ by bisection. Here every condition ‖u − u_i‖ ≤ D, where D
    is the right side above, is solved exactly as a quadratic equation in γ. With c_i =
    u_i − μ and e = p/‖p‖, γ‖p‖ = min_i { e·c_i + √((e·c_i)² + D² − ‖c_i‖²) }.

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
        >>> min_max(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [1.0]]
    """
    return farthest(messages, hostile, direction, _limit)


def _limit(products: Tensor, along: Tensor) -> Tensor:
    """Return γ‖p‖ as in `min_max`, where D² = max_ij ‖c_i − c_j‖²."""
    squares = products.diagonal()
    widest = (squares[:, None] + squares - 2 * products).max()
    room = (widest - squares).clamp(min=0)
    return (along + (along.square() + room).sqrt()).min()


def farthest(
    messages: Messages, hostile: Tensor, towards: Direction, limit: Limit
) -> Messages:
    """Replace malicious updates by mean + t·e for the unit vector e of a direction.

    t, the result of `limit`, is γ·‖p‖ in the notation of the paper. Lengths are
    computed in units of about the largest standard deviation. If the direction is 0 or
    all updates are equal, the mean is sent.
    """
    crowd = _crowd.seen(messages, hostile)
    if crowd is None:
        return messages
    mean, std = _crowd.moments(crowd)
    along = _crowd.direction({"std": std, "unit": mean, "sign": mean.sign()}[towards])
    unit = _crowd.power_of_two(std.max())
    products = _crowd.gram(crowd, mean, unit, -along)
    length = limit(products[1:, 1:], products[0, 1:]) * unit
    longest = torch.finfo(length.dtype).max
    return _crowd.sent(messages, hostile, mean - length.clamp(max=longest) * along)
