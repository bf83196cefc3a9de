"""A staircase."""

from __future__ import annotations

import math

from troth.types import Refusal


def steps(round_: int, *, every: int, factor: float = 0.5) -> float:
    """Multiplied by `factor` after every so many rounds.

    The Ditto authors' StackOverflow code halves every 200 rounds.

    Args:
        round_: the round, from 0.
        every: rounds between two changes.
        factor: what each change multiplies by; 1 is `constant`.
    """
    if every < 1 or not 0 < factor < float("inf"):
        raise Refusal(
            f"the schedule's every = {every} must be at least 1 "
            f"and its factor = {factor} positive and finite"
        )
    changes = round_ // every
    if changes * math.log(factor) > math.log(1e6):
        raise Refusal(
            f"the schedule's factor = {factor} over {changes} changes multiplies the "
            "learning rate by more than a million; take a factor below 1"
        )
    return float(factor**changes)
