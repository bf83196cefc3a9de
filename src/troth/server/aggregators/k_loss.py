"""k-loss: the update with the (f + 1)-th largest loss.

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

    The loss is the loss of the shared model w on all of the client's training data, as
    in the Ditto authors' code.

    No robustness: the rule reads the losses that clients send. A malicious client that
    sends the right number is chosen.

    Departs: among equal losses, lower client ids come first.

    Args:
        messages: One update per client.
        loss: [n] losses that the clients send; NaN counts as infinite.
        note: Callback that receives a mask of the chosen update.
        f: Number of largest losses to skip; 0 takes the update with the largest loss.
            "auto": the number of malicious clients expected in a cohort, rounded down.
        strict: Whether to refuse f ≥ n. If false, the update with the smallest loss is
            taken for such f.

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
