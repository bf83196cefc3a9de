"""The coordinate-wise median.

References: yin2018byzantine.
"""

from __future__ import annotations

from torch import Tensor

from troth import numerics
from troth.server import rules
from troth.types import Messages


def median(
    messages: Messages, *, f: rules.Count = "auto", strict: bool = True
) -> Tensor:
    """The median of every coordinate (Definition 1); even counts take the middle.

    Guarantee: with fewer than half of the rows hostile (2f < n), every coordinate lies
    within the range of the benign ones.

    Args:
        messages: of the round.
        f: rows that may be hostile; the result does not depend on it, its guarantee
            does.
        strict: refuse 2f ≥ n; false goes on without the guarantee.
    """
    f = rules.number("median", f, otherwise=0)
    n = len(messages.update)
    rules.enough("median", n, f, 2 * f + 1, "n ≥ 2f + 1", strict)
    return numerics.median(messages.update)
