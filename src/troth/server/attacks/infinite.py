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
    """Replace malicious updates by infinity, or NaN, in every coordinate.

    One such row ruins a mean for good; here the filter `drop_invalid`, which always
    stands first, removes it and names the client, so the round goes on as if malicious
    clients had not answered.

    Threat model: knows nothing; controls its own message.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        value: Value of every number.

    Returns:
        The messages, with attacked updates.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0]])
        >>> infinite(sent, sent.client == 1).update.tolist()
        [[1.0], [inf]]
    """
    u = messages.update
    return messages._replace(update=torch.where(hostile[:, None], float(value), u))
