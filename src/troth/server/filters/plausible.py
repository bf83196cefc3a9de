"""Messages that no honest client can send are dropped.

References: farhadkhani2022equivalence.
"""

import math
from typing import Literal

from troth import numerics
from troth.config.checks import coupled, expect
from troth.types import Messages


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
        messages: One update per client.
        radius: Radius of the ball. "auto": λ times the regularizer's longest gradient,
            from the experiment's personalizer `coupled` and its regularizer.
        slack: Share by which a row may exceed the radius, for rounding.

    Returns:
        The messages that are left.

    Example:
        >>> from troth.server.rules import messages
        >>> plausible(messages([[0.5], [-1.0], [3.0]]), radius=1.0).client.tolist()
        [0, 1]
    """
    radius = coupled("plausible's radius", radius)
    expect(radius > 0, "plausible's radius", radius, "above 0; inf drops nothing")
    expect(0 <= slack < math.inf, "plausible's slack", slack, "at least 0, and finite")
    inside = numerics.norms(messages.update) <= radius * (1 + slack)
    return Messages(*(field[inside] for field in messages))
