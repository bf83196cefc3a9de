"""Every update becomes the mean of those nearest to it.

References: allouah2023fixing.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Count, count
from troth.types import Messages


def nnm(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Messages:
    """Replace each update by the mean of its n − f nearest: nearest-neighbor mixing.

    A row counts among its own nearest; of equally near ones the lower client id is
    taken. What travels beside the updates (`extra`) is mixed by the same neighbors.

    Guarantee: for 2f < n, a rule behind it that is (f, κ)-robust (`median`, `krum`,
    `geometric_median`, `trimmed_mean`) becomes (f, κ')-robust with κ' ≤ 8f/(n − f)·(κ +
    1): the squared distance of the result from the mean of any n − f rows is at most κ'
    times their variance (Lemma 1). Where f/n stays below a half, so that κ is bounded,
    no rule does better but for a constant. Alone it promises nothing.

    Args:
        messages: One update per client.
        f: Number of rows that may be malicious; 0 makes every row the mean.
        strict: Whether 2f ≥ n is refused; false leaves a row alone where f ≥ n − 1.

    Returns:
        The messages, with mixed updates and extras.

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
    """Return [n, n]: 1/k for the k rows nearest to a row, itself first; otherwise 0."""
    distance = numerics.level(numerics.square_distances(messages.update))  # ties by id
    distance.fill_diagonal_(-1.0)
    order = messages.client.argsort(stable=True)
    near = distance[:, order].argsort(dim=1, stable=True)[:, :k]
    return torch.zeros_like(distance).scatter_(1, order[near], 1 / k)


def _mixed(weight: Tensor, rows: Tensor) -> Tensor:
    """Return [m, d]: Σ_j weight_ij·rows_j for weights [m, n], in float64."""
    result = rows.new_empty(len(weight), rows.shape[1])
    for block in numerics.blocks(rows):
        result[:, block] = weight @ rows[:, block].double()
    return result
