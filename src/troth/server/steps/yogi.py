r"""Yogi on the server.

References: reddi2021adaptive.
"""

import torch
from torch import Tensor

from troth.server.steps._moments import adapted
from troth.types import Broadcast


def yogi(
    broadcast: Broadcast,
    step: Tensor,
    memory: Tensor,
    *,
    lr: float = 0.1,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> tuple[Tensor, Tensor]:
    """Take a FedYogi step: v ← v − (1−β₂)·Δ²·sign(v − Δ²), the rest as `adam`.

    Algorithm 2 of the paper: the second moment moves by steps of the size of Δ², so it
    forgets large updates more slowly than Adam does.

    Departs: v starts at 0 (the paper: at τ² or above).

    Args:
        broadcast: Broadcast that the round began with.
        step: Aggregated update Δ.
        memory: [2, d] m and √v; empty at first.
        lr: Learning rate of the server.
        beta1: Decay rate β₁ of the first moment; 0: no memory, 1: w never moves.
        beta2: Decay rate β₂ of the second moment v; 1 never changes v from 0.
        tau: Adaptivity τ > 0: w moves by lr·m/τ where v is small compared with τ².

    Returns:
        The next shared model [d], and the memory.

    Example:
        >>> from troth.server.rules import broadcast
        >>> sent = broadcast([0.0, 0.0])
        >>> w, memory = yogi(sent, torch.tensor([3.0, -0.1]), torch.zeros(0))
        >>> [round(x, 3) for x in w.tolist()]
        [0.1, -0.091]
    """

    def second(root: Tensor, size: Tensor) -> Tensor:
        part = (1 - beta2) ** 0.5 * size
        less = (root - part).clamp(min=0).sqrt() * (root + part).sqrt()
        more = torch.where(root < size, torch.hypot(root, part), root)
        return torch.where(root > size, less, more)

    options = {"lr": lr, "tau": tau, "beta1": beta1, "beta2": beta2}
    return adapted(broadcast.w, step, memory, second, **options)
