"""Inner product manipulation (IPM): a reversed and scaled benign mean.

References: xie2020fall.
"""

from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages

EPSILON = 0.5


def ipm(messages: Messages, hostile: Tensor, *, epsilon: float = EPSILON) -> Messages:
    """Send −epsilon times the mean of the benign updates from all malicious clients.

    u = −ε·(1/k)·Σ u_j over the k benign updates. A small ε keeps u near the benign
    updates, so an aggregator based on distances may choose u. Its step then has a
    negative inner product with the benign mean. Against the mean of n updates of which
    f are malicious, this takes ε > (n−f)/f.

    Threat model: knows all benign updates of the round; controls the messages of all
    malicious clients, which act as one.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        epsilon: Factor ε on the reversed mean. 0 sends zeros, 1 the opposite of the
            mean.

    Returns:
        The messages, with attacked updates.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> ipm(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [-1.0]]
    """
    _crowd.finite("ipm", "epsilon", epsilon, 0, "0 sends zeros")
    return _crowd.replaced(messages, hostile, lambda mean, _: -epsilon * mean)
