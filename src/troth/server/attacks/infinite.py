"""Messages with infinite or undefined entries: a test of the server's first check."""

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

    A single such update would make the mean infinite or NaN for good. Here the filter
    `drop_invalid`, which always comes first, removes the update and names the client.
    So the round goes on as if malicious clients had not answered.

    Threat model: knows nothing; controls its own message.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        value: Value of every entry of the update.

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
