"""A schedule that changes the learning rate in steps."""

import math

from troth.types import Refusal


def steps(round_: int, *, every: int, factor: float = 0.5, floor: float = 0.0) -> float:
    """Multiply the learning rate by a factor at regular intervals of rounds.

    The result is the factor of the learning rate in this round. The code of Ditto's
    authors for StackOverflow halves the learning rate every 200 rounds. The code of
    Farhadkhani et al. 2022 multiplies it by 0.99 in every round, down to a half or a
    quarter.

    Args:
        round_: Number of the round, from 0.
        every: Number of rounds between two changes, at least 1.
        factor: Factor of each change, above 0. 1 is `constant`.
        floor: Smallest result, from 0 to 1.
    """
    if every < 1 or not 0 < factor < float("inf"):
        raise Refusal(
            f"the schedule's every = {every} must be at least 1 "
            f"and its factor = {factor} positive and finite"
        )
    if not 0 <= floor <= 1:
        raise Refusal(f"the schedule's floor = {floor} must be from 0 to 1")
    changes = round_ // every
    if changes * math.log(factor) > math.log(1e6):
        raise Refusal(
            f"the schedule's factor = {factor} over {changes} changes multiplies the "
            "learning rate by more than a million; take a factor below 1"
        )
    return max(floor, float(factor**changes))
