r"""The average weighted by the clients' sizes.

References: mcmahan2017communication.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.server.rules import Note, silent
from troth.types import Messages


def weighted_mean(messages: Messages, note: Note = silent) -> Tensor:
    """The mean of the updates weighted by how many examples each client says it has.

    Σ_k (n_k/n)·u_k (Algorithm 1). Sizes below 0 count as 0; where all are 0, the plain
    mean. Where clients are drawn in proportion to their sizes, `mean` is this already.

    No robustness: one message moves it anywhere, and sizes are reported, so that a
    client which claims a huge one decides alone.
    """
    size = messages.size.double().nan_to_num(nan=0.0).clamp(min=0)
    size = torch.where(size.max() > 0, size, torch.ones_like(size))
    share = size / size.max()  # before the sum, which could overflow
    weight = share / share.sum()
    note(weight=weight)
    return numerics.combine(weight, messages.update)
