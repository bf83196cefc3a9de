"""The coordinate-wise median.

References: yin2018byzantine.
"""

from torch import Tensor

from troth import numerics
from troth.server.rules import Count, count
from troth.types import Messages


def median(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Tensor:
    """Take the median of every coordinate (Definition 1).

    If n is even, this is the mean of the middle two values.

    Guarantee: if fewer than half of the updates are malicious (2f < n), every
    coordinate lies within the range of the benign values.

    Args:
        messages: One update per client.
        f: Number of malicious updates that the guarantee covers. The result does not
            depend on f. "auto": the number of malicious clients expected in a cohort,
            rounded down.
        strict: Whether to refuse 2f ≥ n. If false, such n are accepted, without a
            guarantee.

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
