"""Updates of the opposite sign.

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
    """Reverse malicious updates: −factor times their own, or times the benign mean.

    With "own" client i sends −factor·u_i (an own update that is not finite goes out as
    it is); with "benign" all send −factor·(1/k)·Σ u_j over the k benign rows, as in the
    byzfl package, which is `ipm` with epsilon = factor.

    Threat model: knows its own update ("own") or all benign updates of the round
    ("benign"); controls its own message.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        factor: Factor on the reversed update; 0: zeros. Overflow stops at the largest
            number.
        of: Update that is reversed: the client's "own", or the "benign" mean.

    Returns:
        The messages, with attacked updates.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> sign_flip(sent, sent.client == 2).update.tolist()
        [[1.0], [3.0], [-9.0]]
    """
    _crowd.finite("sign_flip", "factor", factor, 0, "1 turns the update, 0 sends 0")
    if of == "benign":
        return _crowd.replaced(messages, hostile, lambda mean, _: -factor * mean)
    rows = (hostile & numerics.finite(messages.update)).nonzero().flatten()
    update = messages.update.clone()
    for row in rows.tolist():  # in float64 a factor may be larger than float32 holds
        update[row] = _crowd.narrow(-factor * update[row].double(), update.dtype)
    return messages._replace(update=update)
