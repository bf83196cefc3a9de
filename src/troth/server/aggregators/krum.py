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
    """Take the one update with the lowest score (Blanchard et al., Section 4).

    score(i) = Σ ‖u_i − u_j‖² over the n − f − 2 nearest others j. Scores that agree to
    nine digits are equal; where a score counts one neighbor, the nearest two always
    tie.

    Guarantee: for n ≥ 2f + 3, (α, f)-Byzantine resilience where the benign rows are
    independent draws of one distribution whose spread is small beside its mean.
    A malicious row is never chosen if its distance to every benign row exceeds
    √((n − f − 2)/(n − 2f − 1)) times the diameter of the benign rows.

    Args:
        messages: One update per client.
        note: Receives a mask of the chosen row.
        f: Number of rows that may be malicious; with 0, one row is still chosen.
        neighbors: Number of nearest rows in a score. "blanchard": n − f − 2 (so do the
            Ditto authors, who add the row itself, at distance 0); "byzfl": n − f − 1
            (as that package does).
        ties: Row taken among equal scores. "id": that of the lowest client id (the
            paper); "first": the row that comes first (the Ditto authors; the client
            drawn first, if `train.sampling` keeps that order).
        strict: Whether n < 2f + 3 is refused. If not, and no neighbor is left to count,
            all scores are 0.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates = torch.tensor([[1.0], [2.0], [2.5], [4.0], [50.0]])
        >>> troth.aggregate("krum", updates, f=1)
        tensor([2.])
    """
    f = count("krum", f, len(messages.client), (2, 3), strict)
    return _choice.krum(messages, note, f, 1, neighbors, ties)
