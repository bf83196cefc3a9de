r"""The sum of the updates.

References: farhadkhani2022equivalence.
"""

from typing import Any

from torch import Tensor

from troth import numerics
from troth.types import Messages


def sum(messages: Messages) -> Tensor:
    """Add up the updates: ρ ← ρ + lr·Σ u (Section 2.2, with u = −g).

    Here ρ is the shared model. The rule is `mean` times the number of updates. No
    robustness: a single message can move the result anywhere.

    Args:
        messages: One update per client.

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
