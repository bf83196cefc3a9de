r"""The average weighted by the clients' sizes.

References: mcmahan2017communication.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Note, silent
from troth.types import Messages


def weighted_mean(messages: Messages, note: Note = silent) -> Tensor:
    """Average the updates, weighted by reported numbers of examples: Σ (n_k/n)·u_k.

    Algorithm 1. Sizes below 0 count as 0; if all are 0, it is the plain mean. Where
    clients are drawn in proportion to their sizes, `mean` is this already.

    No robustness: one message moves it anywhere, and a client that reports a huge size
    decides alone.

    Args:
        messages: One update per client, and the reported sizes.
        note: Receives the weights.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates, size = torch.tensor([[0.0], [8.0]]), torch.tensor([30, 10])
        >>> troth.aggregate("weighted_mean", updates, size=size)
        tensor([2.])
    """
    size = messages.size.double().nan_to_num(nan=0.0).clamp(min=0)
    size = torch.where(size.max() > 0, size, torch.ones_like(size))
    share = size / size.max()  # before the sum, which could overflow
    weight = share / share.sum()
    note(weight=weight)
    return numerics.combine(weight, messages.update)
