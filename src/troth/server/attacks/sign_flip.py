"""The opposite of what was learned.

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
    """Turn malicious updates back: −factor times their own, or times the benign mean.

    With "own" client i sends −factor·u_i (an own update that is not finite goes out as
    it is); with "benign" all send −factor·(1/k)·Σ u_j over the k benign rows, as in the
    byzfl package, which is `ipm` with epsilon = factor.

    Threat model: knows its own update ("own") or all benign updates of the round
    ("benign"); controls its own message.

    Args:
        messages: one update per client.
        hostile: [n] mask of malicious clients.
        factor: how far back; 0 sends zeros. What overflows stops at the largest number.
        of: what is turned.

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
