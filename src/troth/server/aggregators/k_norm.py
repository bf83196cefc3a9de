"""The mean without the longest rows.

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
    """The mean of all updates but the f longest (a baseline of Li et al.).

    No robustness but against length: of f hostile rows each counts only where it is no
    longer than some benign one, and then points wherever it likes.

    Args:
        messages: of the clients.
        note: is told whose rows were kept.
        f: rows that are dropped; 0 is the mean.
        strict: refuse f ≥ n. Otherwise the shortest row is always kept.

    Departs: of equally long rows the lowest client ids are kept.
    """
    n = len(messages.client)
    f = count("k_norm", f, n, (1, 1), strict)
    order = _choice.ordered(messages)
    length = numerics.level(numerics.norms(messages.update)[order].cpu().double())
    kept = length.sort(stable=True).indices[: max(1, n - f)]
    return _choice.taken(messages, order, kept, note)
