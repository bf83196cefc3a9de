"""The row of the client with the largest loss that is still believed.

References: li2021ditto.
"""

import torch
from torch import Tensor

from troth.server.aggregators import _choice
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages


def k_loss(
    messages: Messages,
    loss: Tensor,
    note: Note = silent,
    *,
    f: Count = "auto",
    strict: bool = True,
) -> Tensor:
    """Take the update with the (f + 1)-th largest loss (a baseline of Li et al.).

    The loss is that of the shared model, as it was sent, on all the client's training
    data (the Ditto authors' code).

    No robustness: it reads the losses that clients report, and a malicious one that
    reports the right number is chosen.

    Departs: equal losses go from the lowest client id on.

    Args:
        messages: One update per client.
        loss: [n] reported losses; NaN counts as infinite.
        note: Receives a mask of the chosen row.
        f: Number of larger losses to pass over; 0 takes the largest loss.
        strict: Whether f ≥ n is refused. Otherwise the smallest loss is taken there.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates = torch.tensor([[1.0], [2.0], [3.0]])
        >>> troth.aggregate("k_loss", updates, loss=torch.tensor([0.1, 0.9, 0.5]), f=1)
        tensor([3.])
    """
    n = len(messages.client)
    f = count("k_loss", f, n, (1, 1), strict)
    order = _choice.ordered(messages)
    reported = loss.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    down = reported[order].sort(descending=True, stable=True).indices
    place = min(f, n - 1)
    return _choice.taken(messages, order, down[place : place + 1], note)
