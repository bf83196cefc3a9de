"""Inner product manipulation (IPM): a negative multiple of the benign mean.

References: xie2020fall.
"""

from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages

EPSILON = 0.5


def ipm(messages: Messages, hostile: Tensor, *, epsilon: float = EPSILON) -> Messages:
    """Send −epsilon times the mean of the benign updates from all malicious clients.

    u = −ε·(1/k)·Σ u_j over the k benign updates u_j. With a small ε, u is near the
    benign updates, so an aggregator that compares distances may choose u. The inner
    product of its result with the benign mean is then negative. Against the aggregator
    `mean`, with f malicious among n updates, this requires ε > (n−f)/f.

    Threat model: knows all benign updates of the round; controls the messages of all
    malicious clients, which act as one.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        epsilon: Factor ε of the negative mean. 0 sends zeros, 1 the negative mean.

    Returns:
        The messages, with the malicious updates replaced.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> ipm(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [-1.0]]
    """
    _crowd.finite("ipm", "epsilon", epsilon, 0, "0 sends zeros")
    return _crowd.replaced(messages, hostile, lambda mean, _: -epsilon * mean)
