"""Cosine annealing.

References: loshchilov2017sgdr.
"""

import math

from troth.types import Refusal


def cosine(round_: int, rounds: int, *, floor: float = 0.0) -> float:
    """Decay the learning rate by half a period of a cosine, from 1 towards `floor`.

    The result is the factor of the learning rate: floor + (1 − floor)·(1 +
    cos(π·round_/rounds))/2. It is 1 in the first round. It would be `floor` in the
    round after the last.

    Args:
        round_: Number of the round, from 0.
        rounds: Number of rounds.
        floor: Factor of the learning rate at the end, from 0 to 1. 1 is `constant`.
    """
    if not 0 <= floor <= 1:
        raise Refusal(f"cosine's floor = {floor} must lie in [0, 1]")
    return floor + (1 - floor) * (1 + math.cos(math.pi * round_ / rounds)) / 2
