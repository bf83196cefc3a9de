"""Clipping: shorten long updates to a given length.

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
    """Shorten updates that are longer than the radius: u·min(1, radius/‖u‖).

    By default the radius is the median length of the cohort's updates, as in Ditto's
    experiments (Appendix G.6). For an even number of updates, this is the mean of the
    middle two lengths. `extra` (control variates, running statistics) is not changed.

    Guarantee: with a given radius, each of the n updates adds a vector of length at
    most radius/n to their mean. If the radius is the median length and fewer than half
    of the updates are malicious, no clipped update is longer than the longest benign
    one.

    Args:
        messages: One update per client.
        note: Callback that receives a mask of the shortened updates.
        radius: Length of the longest allowed update. 0 means the median length of the
            round's updates.

    Returns:
        The messages, with shortened updates.

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
    """Multiply row i by factor_i; a factor of 1 keeps the row bit for bit."""
    result = torch.empty_like(rows)
    for block in numerics.blocks(rows):
        result[:, block] = rows[:, block] * factor[:, None]
    return result
