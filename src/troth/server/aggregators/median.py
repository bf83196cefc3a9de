"""The coordinate-wise median.

References: yin2018byzantine.
"""

from torch import Tensor

from troth import numerics
from troth.server.rules import Count, count
from troth.types import Messages


def median(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Tensor:
    """Take the median of every coordinate (Definition 1 of the paper).

    If the number n of updates is even, this is the mean of the middle two values.

    Guarantee: if fewer than half of the updates are malicious (2f < n), every
    coordinate lies within the range of the benign values.

    Args:
        messages: Messages of n clients, with one update each.
        f: Number of malicious updates that the guarantee covers. The result does not
            depend on f. "auto" means the expected number of malicious clients in a
            cohort, rounded down.
        strict: Whether to raise Refusal if 2f ≥ n. If false, there is no guarantee for
            such n.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> troth.aggregate("median", torch.tensor([[1.0], [2.0], [9.0]]))
        tensor([2.])
    """
    n = len(messages.update)
    count("median", f, n, (2, 1), strict, 0)
    return numerics.median(messages.update)
