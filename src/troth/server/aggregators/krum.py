"""The row that lies closest to its neighbors.

References: blanchard2017machine.
"""

from torch import Tensor

from troth.server.aggregators import _choice
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages


def krum(
    messages: Messages,
    note: Note = silent,
    *,
    f: Count = "auto",
    neighbors: _choice.Neighbors = "blanchard",
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
        strict: refuse n < 2f + 3. Otherwise where no neighbor is left to count, all
            scores are 0.

    As in the paper, equal scores go to the lowest client id. (The nearest two rows
    always tie where a score counts one neighbor.) Scores that agree to nine digits are
    equal.
    """
    f = count("krum", f, len(messages.client), (2, 3), strict)
    return _choice.krum(messages, note, f, 1, neighbors, ties)
