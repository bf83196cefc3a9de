"""Removal of updates that no honest client can send.

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

    GRAD(ρ) is the set of all gradients −∇_ρR(ρ, θ) over all personal models θ, where ρ
    is the shared model and R the regularizer. For `l2` and `smooth_l2` it is the ball
    of radius λ. For `l2sq` it contains every vector. An honest client of the
    personalizer `coupled` is never outside. The record of the round names the clients
    that were dropped.

    Guarantee: no remaining update is longer than radius·(1 + slack).

    Args:
        messages: One update per client.
        radius: Radius of the ball of plausible updates. "auto": λ times the length of
            the regularizer's longest gradient, with λ of the experiment's personalizer
            `coupled`.
        slack: Relative excess over the radius that is tolerated because of rounding.

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
