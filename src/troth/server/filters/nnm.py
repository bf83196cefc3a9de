"""Nearest-neighbor mixing: every update becomes the mean of its nearest updates.

References: allouah2023fixing.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Count, count
from troth.types import Messages


def nnm(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Messages:
    """Replace each update by the mean of its n − f nearest: nearest-neighbor mixing.

    The n − f nearest of the n updates include the update itself. Of equally near
    updates, those with lower client ids are taken. `extra` is averaged over the same
    clients.

    Guarantee: an aggregator is (f, κ)-robust if the squared distance of its result from
    the mean of any n − f updates is at most κ times their variance. Examples are
    `median`, `krum`, `geometric_median` and `trimmed_mean`. After this filter, such an
    aggregator is (f, κ')-robust with κ' ≤ 8f/(n − f)·(κ + 1), if 2f < n (Lemma 1 of the
    paper). If f/n is bounded away from one half, this is optimal up to a constant. The
    filter alone gives no guarantee.

    Args:
        messages: Messages of n clients, with one update each.
        f: Number of malicious updates to withstand. 0 replaces every update by the mean
            of all. "auto" means the expected number of malicious clients in a cohort,
            rounded down.
        strict: Whether to raise Refusal if 2f ≥ n. If false, there is no guarantee for
            such n, and updates are not changed if f ≥ n − 1.

    Returns:
        The messages, with the means as `update` and `extra`.

    Example:
        >>> from troth.server.rules import messages
        >>> nnm(messages([[1.0], [2.0], [9.0]]), f=1).update.tolist()
        [[1.5], [1.5], [5.5]]
    """
    n = len(messages.update)
    f = count("nnm", f, n, (2, 1), strict and n > 0)
    if n == 0:
        return messages
    weight = _nearest(messages, max(1, n - f))
    return messages._replace(
        update=_mixed(weight, messages.update),
        extra=_mixed(weight, messages.extra),
    )


def _nearest(messages: Messages, k: int) -> Tensor:
    """Return weights [n, n]: in row i, 1/k for the k updates nearest to i, otherwise 0.

    Every update is the nearest to itself.
    """
    # `level` makes nearly equal distances equal, so that client ids decide.
    distance = numerics.level(numerics.square_distances(messages.update))
    distance.fill_diagonal_(-1.0)
    order = messages.client.argsort(stable=True)
    near = distance[:, order].argsort(dim=1, stable=True)[:, :k]
    return torch.zeros_like(distance).scatter_(1, order[near], 1 / k)


def _mixed(weight: Tensor, rows: Tensor) -> Tensor:
    """Return [m, d]: Σ_j weight_ij·rows_j for weights [m, n], with sums in float64."""
    result = rows.new_empty(len(weight), rows.shape[1])
    for block in numerics.blocks(rows):
        result[:, block] = weight @ rows[:, block].double()
    return result
