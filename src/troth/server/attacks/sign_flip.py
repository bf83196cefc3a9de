"""Sign flipping: negative multiples of updates.

References: allenzhu2021byzantine.
"""

from typing import Literal

from torch import Tensor

from troth import numerics
from troth.server.attacks import _crowd
from troth.types import Messages


def sign_flip(
    messages: Messages,
    hostile: Tensor,
    *,
    factor: float = 1.0,
    of: Literal["own", "benign"] = "own",
) -> Messages:
    """Send −factor times the client's computed update or the benign mean.

    With of = "own", client i sends −factor·u_i, where u_i is the update that it
    computed. If u_i is not finite, it is sent unchanged. With of = "benign", all
    malicious clients send −factor·(1/k)·Σ u_j over the k benign updates u_j, as in the
    package byzfl. This equals `ipm` with epsilon = factor.

    Threat model: knows its computed update ("own") or all benign updates of the round
    ("benign"); controls its own message.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        factor: Factor of the negative update; 0 sends zeros. Entries that would
            overflow are clamped to the largest finite number.
        of: Update whose sign is changed: the client's "own" update, or the mean of the
            "benign" updates.

    Returns:
        The messages, with the malicious updates replaced.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> sign_flip(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [-9.0]]
    """
    _crowd.finite("sign_flip", "factor", factor, 0, "1 reverses the update, 0 sends 0")
    if of == "benign":
        return _crowd.replaced(messages, hostile, lambda mean, _: -factor * mean)
    rows = (hostile & numerics.finite(messages.update)).nonzero().flatten()
    update = messages.update.clone()
    for row in rows.tolist():  # in float64, because the factor may exceed float32
        update[row] = _crowd.narrow(-factor * update[row].double(), update.dtype)
    return messages._replace(update=update)
