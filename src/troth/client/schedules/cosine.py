"""Cosine annealing.

References: loshchilov2017sgdr.
"""

import math

from troth.types import Refusal


def cosine(round_: int, rounds: int, *, floor: float = 0.0) -> float:
    """Decay the learning rate by half a cosine, from its full value towards `floor`.

    The factor of the learning rate is floor + (1 − floor)·(1 + cos(π·round_/rounds))/2.
    The factor is 1 in the first round and would reach `floor` in the round after the
    last.

    Args:
        round_: Number of the round, from 0.
        rounds: Number of rounds.
        floor: Share of the learning rate that is left at the end, from 0 to 1. 1 is
            `constant`.
    """
    if not 0 <= floor <= 1:
        raise Refusal(f"cosine's floor = {floor} must lie in [0, 1]")
    return floor + (1 - floor) * (1 + math.cos(math.pi * round_ / rounds)) / 2
