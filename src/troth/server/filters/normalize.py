"""All updates become equally long.

References: hu2022federated.
"""

import math

import torch

from troth import numerics
from troth.server.filters import _rows
from troth.types import Messages, Refusal


def normalize(messages: Messages, *, length: float = 1.0) -> Messages:
    """Every update is scaled to the same length, up or down: u·length/‖u‖.

    An update of zeros stays as it is. What travels beside the updates (`extra`: control
    variates, running statistics) stays too.

    Guarantee: what a row adds to the mean is no longer than length/n, whatever it says.

    Args:
        messages: of the round.
        length: of every update from then on, above 0.
    """
    if not 0 < length < math.inf:
        raise Refusal(f"normalize's length = {length} must be a positive number")
    if len(messages.update) == 0:
        return messages
    before = numerics.norms(messages.update)
    factor = torch.where(before > 0, length / before, 1.0)
    return messages._replace(update=_rows.scaled(factor, messages.update))
