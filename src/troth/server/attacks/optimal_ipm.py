"""Inner product manipulation with the strength that does most harm to the defense.

References: xie2020fall, shejwalkar2021manipulating, allouah2023fixing.
"""

from torch import Tensor

from troth.server.attacks import _search
from troth.server.attacks.ipm import EPSILON
from troth.types import Messages


def optimal_ipm(
    messages: Messages,
    hostile: Tensor,
    defence: _search.Defence,
    *,
    evaluations: int = 20,
) -> Messages:
    """Send −epsilon times the benign mean, with the worst epsilon for the defense.

    As `ipm`, but ε maximizes ‖defence(attacked) − mean‖ among the values tried. The
    first value is the default of `ipm`, so by this measure the attack never does less
    harm than that default. The other values are positive as well (`_search.strongest`).

    Threat model: knows all benign updates of the round, and the filters and the
    aggregator with their memories and random keys of this round, which it tries out;
    controls the messages of all malicious clients, which act as one.

    Departs: the attack is that of the package byzfl. Its line search, which starts with
    steps of 10, may end with less harm than the plain attack. Shejwalkar & Houmansadr
    search along other directions in this way.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        defence: Function from messages to the step that the server would take.
        evaluations: Number of values of ε that are tried on the defense in a round; 1
            gives `ipm`.

    Returns:
        The messages, with attacked updates.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> server = lambda sent: sent.update.median(dim=0).values
        >>> optimal_ipm(sent, sent.client == 2, server).update.tolist()
        [[1.0], [3.0], [-1.0]]
    """
    given = messages, hostile, defence, evaluations
    return _search.worst("optimal_ipm", *given, EPSILON, lambda m, _, e: -e * m)
