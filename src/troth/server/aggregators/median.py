"""The coordinate-wise median.

References: yin2018byzantine.
"""

from torch import Tensor

from troth import numerics
from troth.server.rules import Count, count
from troth.types import Messages


def median(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Tensor:
    """Take the median of every coordinate (Definition 1); even counts average two.

    Guarantee: with fewer than half of the rows malicious (2f < n), every coordinate
    lies within the range of the benign ones.

    Args:
        messages: One update per client.
        f: Number of rows that may be malicious; only the guarantee depends on f.
        strict: Whether 2f ≥ n is refused; false goes on without the guarantee.

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
