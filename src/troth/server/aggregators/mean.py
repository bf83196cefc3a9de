r"""The plain average.

References: mcmahan2017communication.
"""

from typing import Any

from torch import Tensor

from troth import numerics
from troth.types import Messages


def mean(messages: Messages) -> Tensor:
    """The unweighted mean of the updates (Ditto's Algorithm 2, line 8).

    Where clients are drawn in proportion to their sizes, this is the weighted
    objective. No robustness: one message moves it anywhere.
    """
    return numerics.average(messages.update)


def known() -> dict[str, Any]:
    """What an attack may know of it: the shared model tells the mean."""
    return {"over": "mean", "infers": True}
