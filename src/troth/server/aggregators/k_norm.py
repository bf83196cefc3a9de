"""k-norm: the mean of all updates except for those with the largest norms.

References: li2021ditto.
"""

from torch import Tensor

from troth import numerics
from troth.server.aggregators import _choice
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages


def k_norm(
    messages: Messages,
    note: Note = silent,
    *,
    f: Count = "auto",
    strict: bool = True,
) -> Tensor:
    """Average all updates except for the f with the largest norms.

    This is a baseline of Ditto's paper. No robustness except against large norms: with
    f malicious updates, a malicious update is averaged only if its norm does not exceed
    that of some benign update. Its direction is arbitrary.

    Departs: among updates of equal norms, those with lower client ids are kept.

    Args:
        messages: Messages of n clients, with one update each.
        note: Function that records which updates were kept.
        f: Number of updates to drop; 0 gives the mean. "auto" means the expected number
            of malicious clients in a cohort, rounded down.
        strict: Whether to raise Refusal if f ≥ n. If false, the update with the
            smallest norm is taken for such f.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> troth.aggregate("k_norm", torch.tensor([[1.0], [2.0], [-9.0]]), f=1)
        tensor([1.5000])
    """
    n = len(messages.client)
    f = count("k_norm", f, n, (1, 1), strict)
    order = _choice.ordered(messages)
    length = numerics.level(numerics.norms(messages.update)[order].cpu().double())
    kept = length.sort(stable=True).indices[: max(1, n - f)]
    return _choice.taken(messages, order, kept, note)
