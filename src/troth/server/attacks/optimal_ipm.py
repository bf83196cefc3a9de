"""Inner product manipulation, with the strength that hurts the defense in use most.

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

    As `ipm`, with the ε that maximizes ‖defence(attacked) − mean‖ over those tried: the
    default of `ipm` first, so it never does less harm than that by this measure, then a
    search among ε > 0 (`_search.strongest`).

    Threat model: knows all benign updates of the round, and the filters and the
    aggregator with their memories and random draws of this round, which it tries out;
    controls the messages of all malicious clients, which act as one.

    Departs: the line search of byzfl, whose attack this is (it steps by 10 first), may
    end below the plain attack; Shejwalkar & Houmansadr search their own directions so.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        defence: Function from messages to the step that the server would take.
        evaluations: Number of trials of the defense in a round; 1 is `ipm`.

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
