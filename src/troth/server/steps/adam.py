r"""Adam on the server.

References: reddi2021adaptive.
"""

import torch
from torch import Tensor

from troth.server.steps._moments import adapted
from troth.types import Broadcast


def adam(
    broadcast: Broadcast,
    step: Tensor,
    memory: Tensor,
    *,
    lr: float = 0.1,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> tuple[Tensor, Tensor]:
    """Take a FedAdam step: w ← w + lr·m/(√v + τ).

    m ← β₁m + (1−β₁)Δ and v ← β₂v + (1−β₂)Δ², where Δ is the aggregated update. As in
    Algorithm 2 of Reddi et al., there is no bias correction. With beta1 = 0, beta2 = 1
    and tau = 1, the step is exactly that of `sgd`. Running statistics of batch
    normalization are only averaged.

    Departs: v starts at 0. In the paper it starts at τ² or above.

    Args:
        broadcast: Server's message of this round, with the shared model w.
        step: Aggregated update Δ.
        memory: [2, d] m and √v; empty at first.
        lr: Learning rate of the server.
        beta1: Decay rate β₁ of the first moment m. 0 uses only the present round. With
            1, m stays 0, and w is never changed.
        beta2: Decay rate β₂ of the second moment v. 0 uses only the present round. With
            1, v stays 0.
        tau: Adaptivity τ > 0. In coordinates with v much smaller than τ², the step is
            lr·m/τ.

    Returns:
        The next shared model [d], and the new memory.

    Example:
        >>> from troth.server.rules import broadcast
        >>> sent = broadcast([0.0, 0.0])
        >>> w, memory = adam(sent, torch.tensor([3.0, -0.1]), torch.zeros(0))
        >>> [round(x, 3) for x in w.tolist()]
        [0.1, -0.091]
    """

    def second(root: Tensor, size: Tensor) -> Tensor:
        return torch.hypot(beta2**0.5 * root, (1 - beta2) ** 0.5 * size)

    options = {"lr": lr, "tau": tau, "beta1": beta1, "beta2": beta2}
    return adapted(broadcast.w, step, memory, second, **options)
