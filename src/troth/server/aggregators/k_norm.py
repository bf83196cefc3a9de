"""k-norm: the mean without the longest updates.

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
    """Average all updates except for the f longest (a baseline of Li et al.).

    No robustness except against length: if f updates are malicious, each counts only if
    it is no longer than some benign update. It may point in any direction.

    Departs: among equally long updates, lower client ids are kept.

    Args:
        messages: One update per client.
        note: Callback that receives a mask of the updates kept.
        f: Number of longest updates to drop; 0 gives the mean. "auto": the number of
            malicious clients expected in a cohort, rounded down.
        strict: Whether to refuse f ≥ n. If false, the shortest update is always kept.

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
