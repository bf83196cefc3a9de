"""A little is enough, with the strength that hurts the defense in use most.

References: baruch2019little, shejwalkar2021manipulating, allouah2023fixing.
"""

from torch import Tensor

from troth.server.attacks import _search
from troth.server.attacks.alie import supported
from troth.types import Messages


def optimal_alie(
    messages: Messages,
    hostile: Tensor,
    defence: _search.Defence,
    *,
    evaluations: int = 20,
) -> Messages:
    """Send mean − z·std of the benign updates, with the worst z for the defense.

    As `alie`, with the z that maximizes ‖defence(attacked) − mean‖ over those tried:
    its own z first, so it never does less harm than `alie` by that measure, then a
    search on the same side of the mean (`_search.strongest`).

    Threat model: knows all benign updates of the round, how many clients take part, and
    the filters and the aggregator with their memories and random draws of this round,
    which it tries out; controls the messages of all malicious clients, which act as
    one.

    Departs: the line search of byzfl, whose attack this is (it steps by 10 first), may
    end below the plain attack; Shejwalkar & Houmansadr search their own directions so.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        defence: Function from messages to the step that the server would take.
        evaluations: Number of trials of the defense in a round; 1 is `alie`.

    Returns:
        The messages, with attacked updates.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> server = lambda sent: sent.update.median(dim=0).values
        >>> optimal_alie(sent, sent.client == 2, server).update.tolist()
        [[1.0], [3.0], [1.0]]
    """
    given = messages, hostile, defence, evaluations
    plain = supported(len(hostile), int(hostile.sum()))
    return _search.worst("optimal_alie", *given, plain, lambda m, std, z: m - z * std)
