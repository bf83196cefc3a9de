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
    """Take a FedYogi step: v ← v − (1−β₂)·Δ²·sign(v − Δ²), otherwise like `adam`.

    This is Algorithm 2 of Reddi et al. Δ is the aggregated update, and v its second
    moment. The change of v is proportional to Δ². So after large updates, v decreases
    more slowly than in Adam.

    Departs: v starts at 0. In the paper it starts at τ² or above.

    Args:
        broadcast: Server's message of this round, with the shared model w.
        step: Aggregated update Δ.
        memory: [2, d] m and √v; empty at first.
        lr: Learning rate of the server.
        beta1: Decay rate β₁ of the first moment m. 0 uses only the present round. With
            1, m stays 0, and w is never changed.
        beta2: Decay rate β₂ of the second moment v. With 0, v changes by Δ² in every
            round. With 1, v stays 0.
        tau: Adaptivity τ > 0. In coordinates with v much smaller than τ², the step is
            lr·m/τ.

    Returns:
        The next shared model [d], and the new memory.

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
