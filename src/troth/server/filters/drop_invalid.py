"""Messages that are no vector of numbers do not count."""

from __future__ import annotations

import torch

from troth import numerics
from troth.types import Broadcast, Messages


def drop_invalid(broadcast: Broadcast, messages: Messages) -> Messages:
    """Rows that hold NaN or infinity, or have the wrong length, go.

    Always the first filter; the round names and counts what it removed. A deployment
    receives rows one by one: `update` and `extra` may be a list of vectors of any
    length, and become a matrix here.

    Guarantee: every row that is left is finite and as long as w.
    """
    if not matrices(messages, broadcast):
        d, e = broadcast.w.shape[0], broadcast.extra.shape[0]
        fits = torch.tensor(
            [
                u.shape == (d,) and x.shape == (e,)
                for u, x in zip(messages.update, messages.extra, strict=True)
            ],
            dtype=torch.bool,
            device=broadcast.w.device,
        )
        messages = _stack(messages, fits, broadcast)
    valid = finite(messages)
    return messages if bool(valid.all()) else keep(messages, valid)


def matrices(messages: Messages, broadcast: Broadcast) -> bool:
    """Whether messages are matrices already, as wide as what was sent."""
    pairs = zip(messages[:2], broadcast[:2], strict=True)
    return all(isinstance(m, torch.Tensor) and m.shape[1:] == b.shape for m, b in pairs)


def finite(messages: Messages) -> torch.Tensor:
    """[n] rows that hold numbers alone."""
    return numerics.finite(messages.update) & numerics.finite(messages.extra)


def keep(messages: Messages, rows: torch.Tensor) -> Messages:
    """The messages of some rows (a mask)."""
    return Messages(*(field[rows] for field in messages))


def _stack(messages: Messages, fits: torch.Tensor, broadcast: Broadcast) -> Messages:
    """Lists of vectors → a matrix of those that fit."""
    good = fits.nonzero().flatten().tolist()
    w, extra = broadcast.w, broadcast.extra
    rows = [messages.update[i].to(w) for i in good]
    more = [messages.extra[i].to(extra) for i in good]
    return Messages(
        torch.stack(rows) if rows else w.new_zeros(0, w.shape[0]),
        torch.stack(more) if more else extra.new_zeros(0, extra.shape[0]),
        *(field[fits] for field in messages[2:]),
    )
