"""Updates of infinite numbers or NaN, which the filter `drop_invalid` removes."""

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
    """Replace all entries of malicious updates by infinity or NaN.

    A single such update would make the mean infinite or NaN, and so all later models.
    The filter `drop_invalid`, which always comes first, removes the update, and the
    record of the round lists the client. So the round continues as if malicious clients
    had sent no message.

    Threat model: knows nothing; controls its own message.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        value: Value of every entry of the update.

    Returns:
        The messages, with the malicious updates replaced.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0]])
        >>> infinite(sent, sent.client == 1).update.tolist()
        [[1.0], [inf]]
    """
    u = messages.update
    return messages._replace(update=torch.where(hostile[:, None], float(value), u))
