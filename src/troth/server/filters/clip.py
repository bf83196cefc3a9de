"""Long updates are shortened.

References: sun2019can.
"""

import math

import torch

from troth import numerics
from troth.server.filters import _rows
from troth.server.rules import Note, silent
from troth.types import Messages, Refusal


def clip(messages: Messages, note: Note = silent, *, radius: float = 0.0) -> Messages:
    """Updates longer than the radius are scaled down to it: u·min(1, radius/‖u‖).

    By default the radius is the median length of the cohort's updates (on even counts
    the mean of the middle two), as in Ditto's experiments (Appendix G.6). What travels
    beside the updates (`extra`: control variates, running statistics) stays.

    Guarantee: with a radius, what a row adds to the mean is no longer than radius/n,
    whatever it says; by the median length, where fewer than half of the rows are
    hostile, no row is longer than the longest benign one.

    Args:
        messages: of the round.
        note: is told whose update was scaled down.
        radius: longest that an update may be; 0: the median length.
    """
    if not 0 <= radius < math.inf:
        raise Refusal(
            f"clip's radius = {radius} must be at least 0, and finite; 0 takes the "
            "median length of the updates"
        )
    if len(messages.update) == 0:
        return messages
    length = numerics.norms(messages.update)
    limit = length.new_tensor(radius)
    if radius == 0:
        limit = numerics.median(length[:, None])[0]
    clipped = length > limit
    note(clipped=clipped)
    factor = torch.where(clipped, limit / length, 1.0)
    return messages._replace(update=_rows.scaled(factor, messages.update))
