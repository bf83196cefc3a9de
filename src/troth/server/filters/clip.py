"""Long updates are shortened.

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
    """Shorten updates longer than the radius to it: u·min(1, radius/‖u‖).

    By default the radius is the median length of the cohort's updates (on even counts
    the mean of the middle two), as in Ditto's experiments (Appendix G.6). What travels
    beside the updates (`extra`: control variates, running statistics) stays.

    Guarantee: with a radius, a row adds to the mean no more than radius/n; with the
    median length, if fewer than half of the rows are malicious, no row is longer than
    the longest benign one.

    Args:
        messages: One update per client.
        note: Receives a mask of the shortened rows.
        radius: Length of the longest allowed update; 0: the median length.

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
    """Return [n, d]: row i times factor_i; a factor of 1 keeps its row bit for bit."""
    result = torch.empty_like(rows)
    for block in numerics.blocks(rows):
        result[:, block] = rows[:, block] * factor[:, None]
    return result
