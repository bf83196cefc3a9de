"""Removal of updates with invalid numbers or a wrong number of entries."""

import torch

from troth import numerics
from troth.types import Broadcast, Messages


def drop_invalid(broadcast: Broadcast, messages: Messages) -> Messages:
    """Drop updates with NaN or infinity, or with the wrong number of entries.

    This filter is always the first one. The record of the round lists the clients whose
    updates were dropped.

    Guarantee: every remaining update is finite and has as many entries as the shared
    model.

    Args:
        broadcast: Server's message to the clients; updates must have the number of
            entries of its shared model w, and `extra` that of its `extra`.
        messages: Messages of n clients, with one update each.

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
    """Return whether all messages are finite, as a tensor [1] on the device.

    The result has shape [0] if updates have a wrong number of entries. If all messages
    are finite, the server skips this filter. A filter whose module has this function is
    always applied first.
    """
    if not _fits(broadcast, messages):
        return broadcast.w.new_zeros(0, dtype=torch.bool)
    return _finite(messages).all()[None]


def _fits(broadcast: Broadcast, messages: Messages) -> bool:
    """Return whether updates and `extra` have the right numbers of entries."""
    pairs = zip(messages[:2], broadcast[:2], strict=True)
    return all(rows.shape[1:] == sent.shape for rows, sent in pairs)


def _finite(messages: Messages) -> torch.Tensor:
    return numerics.finite(messages.update) & numerics.finite(messages.extra)
