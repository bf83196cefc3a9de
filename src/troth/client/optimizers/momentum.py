"""Gradient descent with Polyak's heavy ball.

References: polyak1964some.
"""

import torch
from torch import Tensor

from troth.types import Carry, Optimizer, Refusal


def momentum(*, beta: float = 0.9) -> Optimizer:
    """Step along a running sum of gradients (Polyak's heavy ball).

    v are the parameters and g their gradient: m ← β·m + g, then v ← v − lr·m. This
    equals torch.optim.SGD with momentum.

    Args:
        beta: Weight β of the previous m, in [0, 1). 0 is plain `sgd`.
    """
    if not 0 <= beta < 1:
        raise Refusal(f"momentum's beta = {beta} must lie in [0, 1)")

    def step(v: Tensor, g: Tensor, moments: Carry, lr: Tensor) -> tuple[Tensor, Carry]:
        m = beta * moments[0] + g
        return torch.addcmul(v, m, -lr), (m,)

    return Optimizer(lambda v: (torch.zeros_like(v),), step, limit=2 * (1 + beta))
