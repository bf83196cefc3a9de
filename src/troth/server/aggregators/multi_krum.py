"""The mean of the rows that lie closest to their neighbors.

References: blanchard2017machine.
"""

from torch import Tensor

from troth.config.checks import expect
from troth.server.aggregators import _choice
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages


def multi_krum(
    messages: Messages,
    note: Note = silent,
    *,
    f: Count = "auto",
    m: int = 0,
    neighbors: _choice.Neighbors = "blanchard",
    ties: _choice.Ties = "id",
    strict: bool = True,
) -> Tensor:
    """Average the m updates with the lowest Krum scores (Blanchard et al., Section 5).

    Guarantee: for n ≥ 2f + 3 and m ≤ n − f, malicious rows as far from the benign ones
    as `krum` says come after all of these, and so count for nothing.

    Args:
        messages: One update per client.
        note: Receives a mask of the chosen rows.
        f: Number of rows that may be malicious; 0 with m = 0 is the mean.
        m: Number of rows to average; 1: Krum; 0: n − f (the Ditto authors' code).
        neighbors: Number of nearest rows in a score, as for `krum`.
        ties: Order of equal scores, as for `krum`. With n = 10 and f = 8 no neighbor
            counts, and the Ditto authors' code takes the two clients drawn first.
        strict: Whether n < 2f + 3 and m > n − f are refused. Otherwise at least one row
            and at most all are taken; with no neighbor left to count, all scores are 0.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates = torch.tensor([[1.0], [2.0], [3.0], [4.0], [50.0]])
        >>> troth.aggregate("multi_krum", updates, f=1)
        tensor([2.5000])
    """
    n = len(messages.client)
    f = count("multi_krum", f, n, (2, 3), strict)
    expect(m >= 0, "multi_krum's m", m, "at least 1, or 0 for n − f")
    most = f"at most n − f = {n - f}; lower m, or set strict = false (no guarantee)"
    expect(m <= n - f or not strict, "multi_krum's m", m, most)
    m = max(1, min(m or n - f, n))
    return _choice.krum(messages, note, f, m, neighbors, ties)
