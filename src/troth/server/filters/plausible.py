r"""Replies that no honest client can send are ignored.

References: farhadkhani2022equivalence.
"""

import math
from typing import Literal

from troth import numerics
from troth.types import Messages, Refusal


def plausible(
    messages: Messages,
    *,
    radius: float | Literal["auto"] = "auto",
    slack: float = 1e-5,
) -> Messages:
    """Rows outside GRAD(ρ) are dropped (Section 2.2), and the record names them.

    GRAD(ρ) holds all gradients −∇_ρR(ρ, θ) that some θ gives: for `l2` and `smooth_l2`
    the ball of radius λ, for `l2sq` everything. A client of personalizer `coupled` that
    computes what it should is never outside.

    Guarantee: no row that is left is longer than radius·(1 + slack).

    Args:
        messages: of the round.
        radius: of the ball; "auto": λ times how long the regularizer's gradient can be,
            from the experiment's personalizer `coupled` and its regularizer.
        slack: by which share a row may be longer, for rounding.
    """
    if radius == "auto":
        raise Refusal(
            "plausible's radius = 'auto' is known only with personalizer 'coupled'; "
            "set radius to the longest reply that an honest client can send"
        )
    if not radius > 0 or not 0 <= slack < math.inf:
        raise Refusal(
            f"plausible's radius = {radius} must be above 0 (inf lets everything pass) "
            f"and its slack = {slack} at least 0, and finite"
        )
    inside = numerics.norms(messages.update) <= radius * (1 + slack)
    return Messages(*(field[inside] for field in messages))
