"""The row that lies closest to its neighbors.

References: blanchard2017machine.
"""

from __future__ import annotations

from torch import Tensor

from troth.server import rules
from troth.server.aggregators import _choice, _krum
from troth.server.verdicts import Note, silent
from troth.types import Messages


def krum(
    messages: Messages,
    note: Note = silent,
    *,
    f: rules.Count = "auto",
    neighbors: _krum.Neighbors = "blanchard",
    ties: _choice.Ties = "id",
    strict: bool = True,
) -> Tensor:
    """The one update with the lowest score (Blanchard et al., Section 4).

    score(i) = Σ ‖u_i − u_j‖² over the n − f − 2 nearest others j.

    Guarantee: for n ≥ 2f + 3, (α, f)-Byzantine resilience where the benign rows are
    independent draws of one distribution whose spread is small beside its mean. Hostile
    rows farther from all benign ones than √((n − f − 2)/(n − 2f − 1)) times the
    diameter of these are never chosen.

    Args:
        messages: of the clients.
        note: is told whose row it was.
        f: rows that may be hostile. 0 is not the mean: one row is chosen still.
        neighbors: how many nearest others count: "blanchard" n − f − 2 (so do the
            Ditto authors, who add the row itself, at distance 0); "byzfl" n − f − 1
            (as that package does).
        ties: which of equal scores is taken: that of the lowest client id, or "first"
            the row that comes first (the Ditto authors; it is the client that was drawn
            first, where `train.sampling` keeps that order).
        strict: refuse n < 2f + 3. Otherwise where no neighbour is left to count, all
            scores are 0.

    As in the paper, equal scores go to the lowest client id. (The nearest two rows
    always tie where a score counts one neighbour.) Scores that agree to nine digits are
    equal.
    """
    n = len(messages.client)
    f = rules.number("krum", f)
    rules.enough("krum", n, f, 2 * f + 3, "n ≥ 2f + 3", strict)
    order = _choice.ordered(messages, ties)
    between = _choice.distances(messages, order)
    first = _krum.best(between, f, neighbors, 1)
    return _choice.taken(messages, order, first, note)
