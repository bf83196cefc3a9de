r"""The sum.

References: farhadkhani2022equivalence.
"""

from typing import Any

from torch import Tensor

from troth import numerics
from troth.types import Messages


def sum(messages: Messages) -> Tensor:
    """Add up the updates: ρ ← ρ + lr·Σ u (Section 2.2, with u = −g).

    As `mean`, with a learning rate that is not divided by how many answered. No
    robustness: one message moves it anywhere.

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
    """Return what an attack may know of it: the shared model reveals the sum."""
    return {"over": "sum", "infers": True}
