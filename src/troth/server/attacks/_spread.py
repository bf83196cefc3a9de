"""How far from the benign mean a row may go and still look like one of them."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages

Direction = Literal["std", "unit", "sign"]

Limit = Callable[[Tensor, Tensor], Tensor]
"""The largest length t of a step along a unit vector e from the mean, given the inner
products of the deviations c_i = u_i − mean with each other [k, k] and with e [k]."""


def farthest(
    messages: Messages, hostile: Tensor, towards: Direction, limit: Limit
) -> Messages:
    """Replace malicious rows by mean + t·e, with e the unit vector of the direction.

    t is γ·‖p‖ of the paper's mean + γ·p. All numbers are in units of the largest
    spread. A direction of zero, or rows that do not differ, leave the mean.
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
