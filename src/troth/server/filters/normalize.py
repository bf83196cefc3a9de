"""Normalization: scale all updates to the same norm.

References: hu2022federated.
"""

import math

import torch

from troth import numerics
from troth.config.checks import expect
from troth.server.filters.clip import scaled
from troth.types import Messages


def normalize(messages: Messages, *, length: float = 1.0) -> Messages:
    """Scale every update u to the same norm: u·length/‖u‖.

    An update of zeros stays 0. `extra` (control variates, running statistics) is not
    changed.

    Guarantee: each of the n updates contributes a vector of norm at most length/n to
    their mean.

    Args:
        messages: Messages of n clients, with one update each.
        length: Norm of every update after the filter, above 0.

    Returns:
        The messages, with scaled updates.

    Example:
        >>> from troth.server.rules import messages
        >>> normalize(messages([[3.0, 4.0], [0.0, -9.0]]), length=10.0).update.tolist()
        [[6.0, 8.0], [0.0, -10.0]]
    """
    expect(0 < length < math.inf, "normalize's length", length, "a positive number")
    if len(messages.update) == 0:
        return messages
    before = numerics.norms(messages.update)
    factor = torch.where(before > 0, length / before, 1.0)
    return messages._replace(update=scaled(factor, messages.update))
