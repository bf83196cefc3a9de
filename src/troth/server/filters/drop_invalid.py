"""Messages that are no vector of numbers do not count."""

import torch

from troth import numerics
from troth.types import Broadcast, Messages


def drop_invalid(broadcast: Broadcast, messages: Messages) -> Messages:
    """Drop rows that hold NaN or infinity, or have the wrong length.

    Always the first filter; the round names and counts what it removed. A deployment
    receives rows one by one: `update` and `extra` may be a list of vectors of any
    length, and become a matrix here.

    Guarantee: every row that is left is finite and as long as w.

    Args:
        broadcast: what was sent to the clients, for its lengths.
        messages: one update per client.

    Returns:
        The messages that are left.

    Example:
        >>> from troth.server.rules import broadcast, messages
        >>> sent = messages([[1.0], [torch.nan], [2.0]])
        >>> drop_invalid(broadcast([0.0]), sent).client.tolist()
        [0, 2]
    """
    if not _matrices(broadcast, messages):
        messages = _stacked(broadcast, messages)
    valid = _finite(messages)
    if bool(valid.all()):
        return messages
    return Messages(*(field[valid] for field in messages))


def all_finite(broadcast: Broadcast, messages: Messages) -> torch.Tensor:
    """Return whether all rows are finite: [1], on the device; [0] if rows are a list.

    A server that knows it skips the filter. It stands first because it has this
    function.
    """
    if not _matrices(broadcast, messages):
        return broadcast.w.new_zeros(0, dtype=torch.bool)
    return _finite(messages).all()[None]


def _matrices(broadcast: Broadcast, messages: Messages) -> bool:
    """Return whether messages are matrices already, as wide as what was sent."""
    pairs = zip(messages[:2], broadcast[:2], strict=True)
    return all(isinstance(m, torch.Tensor) and m.shape[1:] == b.shape for m, b in pairs)


def _finite(messages: Messages) -> torch.Tensor:
    return numerics.finite(messages.update) & numerics.finite(messages.extra)


def _stacked(broadcast: Broadcast, messages: Messages) -> Messages:
    """Stack lists of vectors into matrices of those that fit."""
    w, extra = broadcast.w, broadcast.extra
    pairs = zip(messages.update, messages.extra, strict=True)
    fits = [u.shape == w.shape and x.shape == extra.shape for u, x in pairs]
    good = [i for i, fit in enumerate(fits) if fit]
    rows = [messages.update[i].to(w) for i in good]
    more = [messages.extra[i].to(extra) for i in good]
    return Messages(
        torch.stack(rows) if rows else w.new_zeros(0, len(w)),
        torch.stack(more) if more else extra.new_zeros(0, len(extra)),
        *(field[good] for field in messages[2:]),
    )
