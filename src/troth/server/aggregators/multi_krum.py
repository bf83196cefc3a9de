"""The mean of the rows that lie closest to their neighbors.

References: blanchard2017machine.
"""

from __future__ import annotations

from torch import Tensor

from troth.server import rules
from troth.server.aggregators import _choice, _krum
from troth.server.verdicts import Note, silent
from troth.types import Messages, Refusal


def multi_krum(
    messages: Messages,
    note: Note = silent,
    *,
    f: rules.Count = "auto",
    m: int = 0,
    neighbors: _krum.Neighbors = "blanchard",
    ties: _choice.Ties = "id",
    strict: bool = True,
) -> Tensor:
    """The mean of the m updates with the lowest Krum scores (Blanchard et al., Sec. 5).

    Guarantee: for n ≥ 2f + 3 and m ≤ n − f, hostile rows that are as far from the
    benign ones as `krum` says come after all of these, and so count for nothing.

    Args:
        messages: of the clients.
        note: is told whose rows they were.
        f: rows that may be hostile; 0 with m = 0 is the mean.
        m: rows that are averaged; 1 is Krum; 0 means n − f (the Ditto authors' code).
        neighbors: as for `krum`.
        ties: as for `krum`; with n = 10 and f = 8 no neighbour counts, and the Ditto
            authors' code takes the two clients that were drawn first.
        strict: refuse n < 2f + 3 and m > n − f. Otherwise at least one row and at most
            all are taken; where no neighbour is left to count, all scores are 0.
    """
    n = len(messages.client)
    f = rules.number("multi_krum", f)
    rules.enough("multi_krum", n, f, 2 * f + 3, "n ≥ 2f + 3", strict)
    m = _count(m, n, f, strict)
    order = _choice.ordered(messages, ties)
    between = _choice.distances(messages, order)
    first = _krum.best(between, f, neighbors, m)
    return _choice.taken(messages, order, first, note)


def _count(m: int, n: int, f: int, strict: bool) -> int:
    """How many rows are averaged."""
    if m < 0:
        raise Refusal(f"multi_krum's m = {m} must be at least 1, or 0 for n − f")
    if strict and m > n - f:
        raise Refusal(
            f"multi_krum's m = {m} is more than n − f = {n - f} rows; lower m, or set "
            "strict = false and do without its guarantee"
        )
    return max(1, min(m or n - f, n))
