r"""Bulyan: Krum repeatedly, then the mean of the values nearest to each median.

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
    """Average the values nearest to the median of updates that Krum chooses.

    This is Bulyan (Section 4 of its paper):

    1. Krum chooses one of the n updates and removes it, until θ = n − 2f are chosen.
    2. In every coordinate, average the β = θ − 2f chosen values closest to the median.

    Guarantee: for n ≥ 4f + 3, the median of every coordinate lies within the range of
    the benign values. For every averaged value, some benign value is at least as far
    from the median.

    Departs: implementations differ in the number of neighbors in Krum's score after
    updates were removed. The paper calls Krum on the n' remaining updates. So here a
    score is the sum over the n' − f − 2 nearest of them (f − 1 in the last call). Of
    equal scores, that of the lowest client id is chosen. If two values are equally far
    from the median and only one is needed, their mean is taken.

    Args:
        messages: Messages of n clients, with one update each.
        note: Function that records which updates Krum chose.
        f: Number of malicious updates to withstand; 0 gives the mean. "auto" means the
            expected number of malicious clients in a cohort, rounded down.
        strict: Whether to raise Refusal if n < 4f + 3. If false, there is no guarantee
            for such n; θ is then at least 1, and β at least 1 (for odd θ) or 2 (for
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
    """Return the indices [theta] of the updates that Krum chooses one after another."""
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
