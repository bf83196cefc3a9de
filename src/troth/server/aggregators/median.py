"""The coordinate-wise median.

References: yin2018byzantine.
"""

from torch import Tensor

from troth import numerics
from troth.server.rules import Count, count
from troth.types import Messages


def median(messages: Messages, *, f: Count = "auto", strict: bool = True) -> Tensor:
    """The median of every coordinate (Definition 1); even counts take the middle.

    Guarantee: with fewer than half of the rows hostile (2f < n), every coordinate lies
    within the range of the benign ones.

    Args:
        messages: of the round.
        f: rows that may be hostile; the result does not depend on it, its guarantee
            does.
        strict: refuse 2f ≥ n; false goes on without the guarantee.
    """
    n = len(messages.update)
    count("median", f, n, (2, 1), strict, 0)
    return numerics.median(messages.update)
