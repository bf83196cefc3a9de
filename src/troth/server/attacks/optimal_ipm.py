"""Inner product manipulation with the strength that does most harm to a defense.

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

    Like `ipm`, but ε maximizes ‖defence(attacked messages) − mean of the benign
    updates‖ among the values that are tried. The first value is the default of `ipm`,
    so by this measure the attack does at least the harm of `ipm` with its default. The
    other values are also positive. `_search.strongest` says which values are tried.

    Threat model: knows all benign updates of the round, and the filters and the
    aggregator with their memories and random keys of this round, which it tries out;
    controls the messages of all malicious clients, which act as one.

    Departs: the attack is from the package byzfl. Its line search, which starts with
    steps of 10, may end with less harm than `ipm`. Shejwalkar and Houmansadr 2021
    search along other directions.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        defence: Function messages → aggregated update.
        evaluations: Number of values of ε that are tried in a round; 1 gives `ipm`.

    Returns:
        The messages, with the malicious updates replaced.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> server = lambda sent: sent.update.median(dim=0).values
        >>> optimal_ipm(sent, sent.client == 2, server).update.tolist()
        [[1.0], [3.0], [-1.0]]
    """
    given = messages, hostile, defence, evaluations
    return _search.worst("optimal_ipm", *given, EPSILON, lambda m, _, e: -e * m)
