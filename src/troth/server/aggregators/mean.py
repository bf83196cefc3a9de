r"""The plain average.

References: mcmahan2017communication.
"""

from typing import Any

from torch import Tensor

from troth import numerics
from troth.types import Messages


def mean(messages: Messages) -> Tensor:
    """Average the updates, each with the same weight (Ditto's Algorithm 2, line 8).

    Where clients are drawn in proportion to their sizes, this is the weighted
    objective. No robustness: one message moves it anywhere.

    Args:
        messages: One update per client.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> troth.aggregate("mean", torch.tensor([[1.0], [2.0], [9.0]]))
        tensor([4.])
    """
    return numerics.average(messages.update)


def known() -> dict[str, Any]:
    """Return what an attack may know of it: the shared model reveals the mean."""
    return {"over": "mean", "infers": True}
