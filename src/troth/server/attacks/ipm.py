"""Inner product manipulation.

References: xie2020fall.
"""

from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages

EPSILON = 0.5


def ipm(messages: Messages, hostile: Tensor, *, epsilon: float = EPSILON) -> Messages:
    """All hostile rows send −epsilon times the mean of the benign ones.

    u = −ε·(1/k)·Σ u_j over the k benign rows. A small ε keeps the row near the others,
    so that a rule that looks at distances may choose it: the step then has a negative
    inner product with the true one. Against the mean of n rows of which f are hostile,
    that takes ε > (n−f)/f.

    Threat model: knows all benign updates of the round (in a round of adversaries alone
    it takes their own for these); controls the messages of all hostile clients, which
    act as one.

    Args:
        messages: of the round.
        hostile: which rows the adversary controls.
        epsilon: how far back; 0 sends zeros, 1 the opposite of the mean.
    """
    _crowd.finite("ipm", "epsilon", epsilon, 0, "0 sends zeros")
    return _crowd.replaced(messages, hostile, lambda mean, _: -epsilon * mean)
