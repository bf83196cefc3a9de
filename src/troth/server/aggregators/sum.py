r"""The sum of the updates.

References: farhadkhani2022equivalence.
"""

from typing import Any

from torch import Tensor

from troth import numerics
from troth.types import Messages


def sum(messages: Messages) -> Tensor:
    """Add the updates: ρ ← ρ + lr·Σ u (Section 2.2 of the paper, where u = −g).

    ρ is the shared model, and u = −g are the updates (negative gradients). The result
    is `mean` times the number of updates. No robustness: a single message can change
    the result arbitrarily.

    Args:
        messages: Messages of n clients, with one update each.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> troth.aggregate("sum", torch.tensor([[1.0], [2.0], [9.0]]))
        tensor([12.])
    """
    n = len(messages.client)
    return numerics.average(messages.update) * n


def known() -> dict[str, Any]:
    """Return what attacks may assume: the shared model reveals the sum of updates."""
    return {"over": "sum", "infers": True}
