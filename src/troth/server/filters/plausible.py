"""Messages that no honest client can send are dropped.

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
    """Drop updates outside GRAD(ρ), which no honest client can send (Section 2.2).

    GRAD(ρ) holds all gradients −∇_ρR(ρ, θ) that some θ gives: for `l2` and `smooth_l2`
    the ball of radius λ, for `l2sq` everything. A client of personalizer `coupled` that
    computes what it should is never outside. The record names who was dropped.

    Guarantee: no row that is left is longer than radius·(1 + slack).

    Args:
        messages: one update per client.
        radius: of the ball; "auto": λ times the longest gradient of the regularizer,
            from the experiment's personalizer `coupled` and its regularizer.
        slack: share by which a row may be longer, for rounding.

    Returns:
        The messages that are left.

    Example:
        >>> from troth.server.rules import messages
        >>> plausible(messages([[0.5], [-1.0], [3.0]]), radius=1.0).client.tolist()
        [0, 1]
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
