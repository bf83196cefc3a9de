r"""The mean of the updates, weighted by the clients' numbers of examples.

References: mcmahan2017communication.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Note, silent
from troth.types import Messages


def weighted_mean(messages: Messages, note: Note = silent) -> Tensor:
    """Average the updates with weights in proportion to numbers of examples.

    The result is Σ (n_k/Σ_j n_j)·u_k, where u_k is the update of client k (Algorithm 1
    of the paper). Clients send their numbers of examples n_k. Negative n_k are replaced
    by 0. If all are 0, the result is the plain mean. If clients are sampled with
    probabilities in proportion to n_k, use `mean`.

    No robustness: a single message can change the result arbitrarily, and a client that
    sends a huge n_k determines the result alone.

    Args:
        messages: One update and one number of examples (`size`) per client.
        note: Function that records the weights of the updates.

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
    share = size / size.max()  # divided first, because the sum could overflow
    weight = share / share.sum()
    note(weight=weight)
    return numerics.combine(weight, messages.update)
