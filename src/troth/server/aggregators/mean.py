r"""The plain average.

References: mcmahan2017communication.
"""

from typing import Any

from torch import Tensor

from troth import numerics
from troth.types import Messages


def mean(messages: Messages) -> Tensor:
    """Average the updates with equal weights (Ditto's Algorithm 2, line 8).

    If clients are sampled with probabilities in proportion to their numbers of
    examples, this minimizes the mean loss over all examples. No robustness: a single
    message can change the result arbitrarily.

    Args:
        messages: Messages of n clients, with one update each.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> troth.aggregate("mean", torch.tensor([[1.0], [2.0], [9.0]]))
        tensor([4.])
    """
    return numerics.average(messages.update)


def known() -> dict[str, Any]:
    """Return what attacks may assume: the shared model reveals the mean update."""
    return {"over": "mean", "infers": True}
