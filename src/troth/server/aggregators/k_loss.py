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
    """Take the update with the (f + 1)-th largest loss (a baseline of Ditto's paper).

    The loss is that of the shared model on all training data of the client, as in the
    code of Ditto's authors.

    No robustness: the rule uses the losses that clients send. A malicious client can
    send a loss with which its update is taken.

    Departs: among equal losses, lower client ids come first.

    Args:
        messages: Messages of n clients, with one update each.
        loss: [n] losses that the clients send; NaN is replaced by infinity.
        note: Function that records which update was chosen.
        f: Number of largest losses to skip. 0 takes the update with the largest loss.
            "auto" means the expected number of malicious clients in a cohort, rounded
            down.
        strict: Whether to raise Refusal if f ≥ n. If false, the update with the
            smallest loss is taken for such f.

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
