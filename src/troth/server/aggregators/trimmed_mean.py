"""Trimmed mean: every coordinate's mean without its lowest and highest values.

References: yin2018byzantine.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.server.aggregators.mean import mean
from troth.server.rules import Count, count
from troth.types import Messages


def trimmed_mean(
    messages: Messages, *, f: Count = "auto", strict: bool = True
) -> Tensor:
    """Average every coordinate without its f lowest and f highest values.

    This is Definition 2 of the paper, with β = f/n and n updates. The result does not
    depend on the order of equal values.

    Guarantee: if 2f < n and at most f updates are malicious, every coordinate lies
    within the range of the benign values.

    Args:
        messages: Messages of n clients, with one update each.
        f: Number of malicious updates to withstand; 0 gives the mean. "auto" means the
            expected number of malicious clients in a cohort, rounded down.
        strict: Whether to raise Refusal if 2f ≥ n. If false, the median is taken for
            such f.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> troth.aggregate("trimmed_mean", torch.tensor([[1.0], [2.0], [9.0]]), f=1)
        tensor([2.])
    """
    n = len(messages.update)
    f = count("trimmed_mean", f, n, (2, 1), strict)
    cut = min(f, (n - 1) // 2)
    if cut == 0:
        return mean(messages)
    result = torch.empty_like(messages.update[0])
    for block, column in numerics.sorted_blocks(messages.update):
        kept = column[cut : n - cut]
        middle = numerics.average(kept, torch.float64).to(kept.dtype)
        result[block] = middle.clamp(kept[0], kept[-1])  # rounding could exceed them
    return result
