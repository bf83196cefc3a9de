"""Clipping: shorten long updates to a given norm.

References: sun2019can.
"""

import math

import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.rules import Note, silent
from troth.types import Messages


def clip(messages: Messages, note: Note = silent, *, radius: float = 0.0) -> Messages:
    """Clip every update u to a largest norm: u·min(1, radius/‖u‖).

    The default radius is the median norm of the round's updates, as in Ditto's
    experiments (Appendix G.6). For an even number of updates, the median is the mean of
    the middle two norms. `extra` (control variates, running statistics) is not changed.

    Guarantee: with radius > 0, each of the n updates contributes a vector of norm at
    most radius/n to their mean. If the radius is the median norm and fewer than half of
    the updates are malicious, the norm of no clipped update exceeds the largest norm of
    a benign update.

    Args:
        messages: Messages of n clients, with one update each.
        note: Function that records which updates were clipped.
        radius: Largest norm of an update. 0 means the median norm of the round's
            updates.

    Returns:
        The messages, with clipped updates.

    Example:
        >>> from troth.server.rules import messages
        >>> clip(messages([[1.0], [2.0], [-9.0]])).update.tolist()
        [[1.0], [2.0], [-2.0]]
    """
    must = "at least 0, and finite; 0 takes the median length of the updates"
    expect(0 <= radius < math.inf, "clip's radius", radius, must)
    if len(messages.update) == 0:
        return messages
    length = numerics.norms(messages.update)
    limit = length.new_tensor(radius)
    if radius == 0:
        limit = numerics.median(length[:, None])[0]
    clipped = length > limit
    note(clipped=clipped)
    factor = torch.where(clipped, limit / length, 1.0)
    return messages._replace(update=scaled(factor, messages.update))


def scaled(factor: Tensor, rows: Tensor) -> Tensor:
    """Multiply row i by factor_i; with factor 1, the row is not changed in any bit."""
    result = torch.empty_like(rows)
    for block in numerics.blocks(rows):
        result[:, block] = rows[:, block] * factor[:, None]
    return result
