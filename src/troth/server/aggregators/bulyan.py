r"""Krum again and again, then the values around every coordinate's median.

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
    """Average the values around the median of the rows that Krum chooses (Section 4).

    1. Krum chooses θ = n − 2f times a row, which leaves the others to the next time.
    2. Of every coordinate's θ values, average the β = θ − 2f closest to their median.

    Guarantee: for n ≥ 4f + 3, in every coordinate each value that counts is no farther
    from the median than a benign row's is, and the median lies among benign ones.

    Departs: implementations differ on the neighbors that Krum counts while rows are
    taken out. As the paper calls Krum anew on the n' rows left, here they are n' − f −
    2 of those; at the last of its calls f − 1. Equal scores go to the lowest client id;
    of two values as far from the median, half of each counts.

    Args:
        messages: One update per client.
        note: Receives a mask of the rows that Krum chose.
        f: Number of rows that may be malicious; 0 is the mean.
        strict: Whether n < 4f + 3 is refused. Otherwise Krum chooses at least one row,
            and at least the middle one or two values of a coordinate count.

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
    """Return [theta] the rows that Krum chooses; each leaves the others' lists."""
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
