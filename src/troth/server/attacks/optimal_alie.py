"""ALIE with the strength that does most harm to the server's defense.

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

    Like `alie`, but z maximizes ‖defence(attacked messages) − mean of the benign
    updates‖ among the values that are tried. The first value is that of `alie`, so by
    this measure the attack does at least the harm of `alie`. The other values have the
    same sign. `_search.strongest` says which values are tried.

    Threat model: knows all benign updates of the round, how many clients take part, and
    the filters and the aggregator with their memories and random keys of this round,
    which it tries out; controls the messages of all malicious clients, which act as
    one.

    Departs: the attack is from the package byzfl. Its line search, which starts with
    steps of 10, may end with less harm than `alie`. Shejwalkar and Houmansadr 2021
    search along other directions.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        defence: Function messages → aggregated update.
        evaluations: Number of values of z that are tried in a round; 1 gives `alie`.

    Returns:
        The messages, with the malicious updates replaced.

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
