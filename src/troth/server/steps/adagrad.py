r"""Adagrad on the server.

References: reddi2021adaptive.
"""

import torch
from torch import Tensor

from troth.server.steps._moments import adapted
from troth.types import Broadcast


def adagrad(
    broadcast: Broadcast,
    step: Tensor,
    memory: Tensor,
    *,
    lr: float = 0.1,
    beta1: float = 0.0,
    tau: float = 1e-3,
) -> tuple[Tensor, Tensor]:
    """Take a FedAdagrad step: v ← v + Δ², w ← w + lr·m/(√v + τ), m as in `adam`.

    Algorithm 2 of the paper. Steps shrink for coordinates that have moved much.

    Departs: v starts at 0 (in the paper at τ² or above).

    Args:
        broadcast: Broadcast at the beginning of the round.
        step: Aggregated update Δ.
        memory: [2, d] m and √v; empty at first.
        lr: Learning rate of the server.
        beta1: Decay rate β₁ of the first moment m. 0 uses only the present round. 1
            keeps m at 0, so that w never moves.
        tau: Adaptivity τ > 0. Where v is small compared with τ², w moves by lr·m/τ.

    Returns:
        The next shared model [d], and the memory.

    Example:
        >>> from troth.server.rules import broadcast
        >>> sent = broadcast([0.0, 0.0])
        >>> w, memory = adagrad(sent, torch.tensor([3.0, -0.1]), torch.zeros(0))
        >>> [round(x, 3) for x in w.tolist()]
        [0.1, -0.099]
    """
    options = {"lr": lr, "tau": tau, "beta1": beta1}
    return adapted(broadcast.w, step, memory, torch.hypot, **options)
