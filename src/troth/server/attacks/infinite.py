"""Messages that are no numbers: a test of the server's first check."""

from typing import Literal

import torch
from torch import Tensor

from troth.types import Messages


def infinite(
    messages: Messages,
    hostile: Tensor,
    *,
    value: Literal["inf", "-inf", "nan"] = "inf",
) -> Messages:
    """Hostile updates are infinite, or NaN, in every coordinate.

    One such row makes a mean useless for ever; here the filter `drop_invalid`, which
    always stands first, removes it and names the client, so the round goes on as if
    hostile clients had not answered.

    Threat model: knows nothing; controls its own message.

    Args:
        messages: of the round.
        hostile: which rows the adversary controls.
        value: what every number is.
    """
    u = messages.update
    return messages._replace(update=torch.where(hostile[:, None], float(value), u))
