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
    """The one update whose loss is the (f + 1)-th largest (a baseline of Li et al.).

    The loss is that of the shared model, as it was sent, on all the client's training
    data (the Ditto authors' code).

    No robustness: it reads the losses that clients report, and a hostile one that
    reports the right number is the one that is chosen.

    Args:
        messages: of the clients.
        loss: [n] what they report; NaN counts as infinite.
        note: is told whose row it was.
        f: larger losses that are passed over; 0 takes the largest.
        strict: refuse f ≥ n. Otherwise the last that there is, the smallest loss.

    Departs: equal losses go from the lowest client id on.
    """
    n = len(messages.client)
    f = count("k_loss", f, n, (1, 1), strict)
    order = _choice.ordered(messages)
    reported = loss.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    down = reported[order].sort(descending=True, stable=True).indices
    place = min(f, n - 1)
    return _choice.taken(messages, order, down[place : place + 1], note)
