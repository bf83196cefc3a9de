r"""The sum.

References: farhadkhani2022equivalence.
"""

from typing import Any

from torch import Tensor

from troth import numerics
from troth.types import Messages


def sum(messages: Messages) -> Tensor:
    """The sum of the updates: ρ ← ρ + lr·Σ u (Section 2.2, with u = −g).

    As the `mean`, with a learning rate that is not divided by how many answered. No
    robustness: one message moves it anywhere.
    """
    n = len(messages.client)
    return numerics.average(messages.update) * n


def known() -> dict[str, Any]:
    """What an attack may know of it: the shared model tells the sum."""
    return {"over": "sum", "infers": True}
