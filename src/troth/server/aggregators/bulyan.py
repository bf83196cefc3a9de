r"""Bulyan: repeated Krum, then the mean of the values around every median.

References: elmhamdi2018hidden.
"""

import torch
from torch import Tensor

from troth.server.aggregators import _around, _choice
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages


def bulyan(
    messages: Messages,
    note: Note = silent,
    *,
    f: Count = "auto",
    strict: bool = True,
) -> Tensor:
    """Average the values around the median of the updates chosen by Krum (Section 4).

    1. Krum chooses one update at a time and removes it, until θ = n − 2f are chosen.
    2. In every coordinate, average the β = θ − 2f values closest to the median.

    Guarantee: for n ≥ 4f + 3, the median of every coordinate lies within the range of
    the benign values. No averaged value is farther from the median than some benign
    value is.

    Departs: implementations differ on how many neighbors Krum counts once updates are
    removed. The paper calls Krum anew on the n' updates left, so here a score counts
    the n' − f − 2 nearest of them (f − 1 in the last call). Equal scores go to the
    lowest client id. If two values are equally far from the median and only one is
    needed, their mean is taken.

    Args:
        messages: One update per client.
        note: Callback that receives a mask of the updates chosen by Krum.
        f: Number of malicious updates to withstand; 0 gives the mean. "auto": the
            number of malicious clients expected in a cohort, rounded down.
        strict: Whether to refuse n < 4f + 3. If false, such n are accepted without a
            guarantee. Then θ is at least 1, and β is at least 1 (for odd θ) or 2 (for
            even θ).

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0], [6.0], [100.0]])
        >>> troth.aggregate("bulyan", updates, f=1)
        tensor([2.])
    """
    n = len(messages.client)
    f = count("bulyan", f, n, (4, 3), strict)
    theta = max(1, n - 2 * f)
    beta = max(2 - theta % 2, theta - 2 * f)
    order = _choice.ordered(messages)
    if theta == n:
        return _choice.taken(messages, order, torch.arange(n), note)
    places = _chosen(_choice.distances(messages, order), f, theta)
    rows = _choice.chosen(messages, order, places, note)
    return _around.median(messages.update[rows], beta)


def _chosen(between: Tensor, f: int, theta: int) -> Tensor:
    """Return the indices [theta] that Krum chooses, one at a time."""
    near, whose = _choice.nearest(between)
    left, chosen = torch.arange(len(between)), []
    for _ in range(theta):
        best = int(_choice.scores(near, len(left) - f - 2).argmin())
        stay = left != left[best]
        chosen.append(left[best])
        keep = (whose != left[best]) & stay[:, None]
        left = left[stay]
        near = near[keep].view(len(left), len(left))
        whose = whose[keep].view(len(left), len(left))
    return torch.stack(chosen)
