"""Removal of updates with invalid numbers or a wrong number of entries."""

import torch

from troth import numerics
from troth.types import Broadcast, Messages


def drop_invalid(broadcast: Broadcast, messages: Messages) -> Messages:
    """Drop updates with NaN or infinity, or with the wrong number of entries.

    This is always the first filter. The record of the round counts and names the
    clients that were dropped.

    Guarantee: every remaining update is finite and has as many entries as w.

    Args:
        broadcast: Broadcast of the server to the clients, which has the right numbers
            of entries.
        messages: One update per client.

    Returns:
        The remaining messages.

    Example:
        >>> from troth.server.rules import broadcast, messages
        >>> sent = messages([[1.0], [torch.nan], [2.0]])
        >>> drop_invalid(broadcast([0.0]), sent).client.tolist()
        [0, 2]
    """
    if not _fits(broadcast, messages):
        w, extra = (part.new_zeros(0, len(part)) for part in broadcast[:2])
        return Messages(w, extra, *(field[:0] for field in messages[2:]))
    valid = _finite(messages)
    if bool(valid.all()):
        return messages
    return Messages(*(field[valid] for field in messages))


def all_finite(broadcast: Broadcast, messages: Messages) -> torch.Tensor:
    """Return whether all messages are finite: [1] on the device, or [0] if unknown.

    The result is [0] if an update has a wrong number of entries. A server that knows
    that all messages are finite skips this filter. Because the module has this
    function, the filter comes first.
    """
    if not _fits(broadcast, messages):
        return broadcast.w.new_zeros(0, dtype=torch.bool)
    return _finite(messages).all()[None]


def _fits(broadcast: Broadcast, messages: Messages) -> bool:
    """Return whether updates and extras have as many entries as in the broadcast."""
    pairs = zip(messages[:2], broadcast[:2], strict=True)
    return all(rows.shape[1:] == sent.shape for rows, sent in pairs)


def _finite(messages: Messages) -> torch.Tensor:
    return numerics.finite(messages.update) & numerics.finite(messages.extra)
