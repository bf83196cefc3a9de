r"""The mean of the updates, weighted by the clients' numbers of examples.

References: mcmahan2017communication.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Note, silent
from troth.types import Messages


def weighted_mean(messages: Messages, note: Note = silent) -> Tensor:
    """Average the updates, weighted by the clients' numbers of examples: Σ (n_k/n)·u_k.

    Algorithm 1. The numbers of examples are those that the clients send. Negative
    numbers count as 0. If all are 0, the result is the plain mean. If clients are
    sampled in proportion to their sizes, `mean` already weights them so.

    No robustness: a single message can move the result anywhere, and a client that
    sends a huge size determines the result alone.

    Args:
        messages: One update and one size per client.
        note: Callback that receives the weights.

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
