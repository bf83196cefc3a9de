"""Model replacement: malicious updates are scaled up (A3 of the Ditto paper).

References: bagdasaryan2020backdoor.
"""

from typing import Literal

import torch
from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages


def model_replacement(
    messages: Messages, hostile: Tensor, *, factor: float | Literal["size"] = 0.0
) -> Messages:
    """Multiply malicious updates by the number of clients, so that one outweighs all.

    As in the code of Ditto's authors, the malicious clients train on corrupted data
    (random labels by default).

    Threat model: knows how many clients take part; controls its own message.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        factor: Factor of the updates. 0 means the number of clients in the round; 1 is
            no attack. "size" means the number of the client's training examples, as in
            the authors' code for StackOverflow.

    Returns:
        The messages, with the malicious updates replaced.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> model_replacement(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [27.0]]
    """
    u = messages.update
    most = torch.finfo(u.dtype).max  # the server drops infinite updates
    if factor == "size":
        larger = u * messages.size.to(u)[:, None]
    else:
        means = "0 means the number of clients in the round"
        _crowd.finite("model_replacement", "factor", factor, 0, means)
        larger = u * min(factor or float(u.shape[0]), most)
    larger = larger.clamp(-most, most)
    return messages._replace(update=torch.where(hostile[:, None], larger, u))
