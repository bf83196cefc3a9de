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
    """Drop updates that no honest client of personalizer `coupled` can send.

    An honest update lies in the set GRAD(ρ) of all −λ∇_ρR(ρ, θ) over all personal
    models θ (Section 2.2 of the paper). ρ is the shared model, R the regularizer, and λ
    its weight. For the regularizers `l2` and `smooth_l2`, GRAD(ρ) is the ball of radius
    λ. For `l2sq`, it contains every vector. The record of the round lists the clients
    whose updates were dropped.

    Guarantee: the norm of every remaining update is at most radius·(1 + slack).

    Args:
        messages: Messages of n clients, with one update each.
        radius: Largest norm of an honest update. "auto" means λ of the experiment's
            personalizer `coupled` times the largest norm of the regularizer's gradient.
        slack: Relative tolerance for rounding errors.

    Returns:
        The remaining messages.

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
