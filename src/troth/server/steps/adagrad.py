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
    """Take a FedAdagrad step: v ← v + Δ², w ← w + lr·m/(√v + τ).

    Δ is the aggregated update, and m its running mean as in `adam`.

    Algorithm 2 of Reddi et al. Steps become smaller in coordinates that changed much.

    Departs: v starts at 0. In the paper it starts at τ² or above.

    Args:
        broadcast: Server's message of this round, with the shared model w.
        step: Aggregated update Δ.
        memory: [2, d] m and √v; empty at first.
        lr: Learning rate of the server.
        beta1: Decay rate β₁ of the first moment m. 0 uses only the present round. With
            1, m stays 0, and w is never changed.
        tau: Adaptivity τ > 0. In coordinates with v much smaller than τ², the step is
            lr·m/τ.

    Returns:
        The next shared model [d], and the new memory.

    Example:
        >>> from troth.server.rules import broadcast
        >>> sent = broadcast([0.0, 0.0])
        >>> w, memory = adagrad(sent, torch.tensor([3.0, -0.1]), torch.zeros(0))
        >>> [round(x, 3) for x in w.tolist()]
        [0.1, -0.099]
    """
    options = {"lr": lr, "tau": tau, "beta1": beta1}
    return adapted(broadcast.w, step, memory, torch.hypot, **options)
