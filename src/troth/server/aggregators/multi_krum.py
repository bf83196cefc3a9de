"""Multi-Krum: the mean of the updates that are closest to their neighbors.

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
    """Average the m updates with the lowest Krum scores (Blanchard et al. 2017).

    The score is defined in `krum`. This is Multi-Krum of the paper's Section 5.

    Guarantee: for n ≥ 2f + 3 and m ≤ n − f, a malicious update is not averaged if its
    distance to every benign update exceeds the bound in the docstring of `krum`.

    Args:
        messages: Messages of n clients, with one update each.
        note: Function that records which updates were chosen.
        f: Number of malicious updates to withstand. With f = 0 and m = 0 the result is
            the mean. "auto" means the expected number of malicious clients in a cohort,
            rounded down.
        m: Number of updates to average. 1 gives Krum; 0 means n − f, as in the Ditto
            authors' code.
        neighbors: Number of nearest updates in a score. "blanchard" means n − f − 2, as
            in the paper. "byzfl" means n − f − 1, as in the package byzfl.
        ties: Order of updates with equal scores: by client "id", or "first" in the
            messages. With n = 10 and f = 8, a score has no neighbors, and the code of
            Ditto's authors takes the two clients that were sampled first.
        strict: Whether to raise Refusal if n < 2f + 3 or m > n − f. If false, there is
            no guarantee for these: at least one and at most n updates are averaged. If
            the number of neighbors is 0 or less, all scores are 0.

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
