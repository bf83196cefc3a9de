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
    """Take the update with the lowest score (Blanchard et al. 2017, Section 4).

    score(i) = Σ ‖u_i − u_j‖² over the n − f − 2 updates j nearest to update i, of n
    updates. Scores that agree to nine digits are treated as equal. If n − f − 2 = 1,
    the scores of the two updates that are nearest to each other are always equal.

    Guarantee: for n ≥ 2f + 3, Krum is Byzantine resilient in the sense of the paper if
    the benign updates are independent draws from one distribution whose spread is small
    compared with its mean. A malicious update is never chosen if its distance to every
    benign update exceeds √((n − f − 2)/(n − 2f − 1)) times the diameter of the benign
    updates.

    Args:
        messages: Messages of n clients, with one update each.
        note: Function that records which update was chosen.
        f: Number of malicious updates to withstand. With 0, too, only one update is
            taken. "auto" means the expected number of malicious clients in a cohort,
            rounded down.
        neighbors: Number of nearest updates in a score. "blanchard" means n − f − 2, as
            in the paper and the code of Ditto's authors (which also adds the update
            itself, at distance 0). "byzfl" means n − f − 1, as in the package byzfl.
        ties: Update that is taken if scores are equal. "id" means that of the lowest
            client id, as in the paper. "first" means the first one in the messages, as
            in the code of Ditto's authors. This is the client that was sampled first,
            if `train.sampling` keeps that order.
        strict: Whether to raise Refusal if n < 2f + 3. If false, there is no guarantee
            for such n; if the number of neighbors is 0 or less, all scores are 0.

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
