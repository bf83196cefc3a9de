"""Krum: the update that lies closest to its neighbors.

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

    score(i) = Σ ‖u_i − u_j‖² over the n − f − 2 updates j nearest to i. Scores that
    agree to nine digits count as equal. If a score counts a single neighbor, the two
    updates nearest to each other always tie.

    Guarantee: for n ≥ 2f + 3, Krum is (α, f)-Byzantine resilient if the benign updates
    are independent draws from one distribution whose spread is small compared with its
    mean. A malicious update is never chosen if its distance to every benign update
    exceeds √((n − f − 2)/(n − 2f − 1)) times the diameter of the benign updates.

    Args:
        messages: One update per client.
        note: Callback that receives a mask of the chosen update.
        f: Number of malicious updates to withstand. Even with 0, a single update is
            chosen. "auto": the number of malicious clients expected in a cohort,
            rounded down.
        neighbors: Number of nearest updates that a score counts. "blanchard": n − f −
            2, as in the paper and the Ditto authors' code (which also adds the update
            itself, at distance 0). "byzfl": n − f − 1, as in the package byzfl.
        ties: Update chosen among equal scores. "id": the update of the lowest client
            id, as in the paper. "first": the first update in the messages, as in the
            Ditto authors' code. This is the client that was sampled first, if
            `train.sampling` keeps that order.
        strict: Whether to refuse n < 2f + 3. If false, such n are accepted without a
            guarantee; if a score counts no neighbor, all scores are 0.

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
