"""Adam.

References: kingma2015adam.
"""

import torch
from torch import Tensor

from troth.types import Carry, Optimizer, Refusal


def adam(*, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Scale steps by running moments of the gradient (Adam, Algorithm 1 of its paper).

    Both moments are corrected for their bias towards 0.

    Args:
        beta1: Decay rate β₁ of the running mean of gradients, in [0, 1). 0 uses the
            current gradient alone.
        beta2: Decay rate β₂ of the running mean of squared gradients, in [0, 1). 0 uses
            the current gradient alone.
        eps: Positive number that is added to the denominator, which may be 0.
    """
    if not (0 <= beta1 < 1 and 0 <= beta2 < 1 and 0 < eps < float("inf")):
        raise Refusal(
            f"adam's beta1 = {beta1} and beta2 = {beta2} must lie in [0, 1), "
            f"and eps = {eps} must be positive and finite"
        )

    def init(v: Tensor) -> Carry:
        return torch.zeros_like(v), torch.zeros_like(v), v.new_zeros(1)

    def step(v: Tensor, g: Tensor, moments: Carry, lr: Tensor) -> tuple[Tensor, Carry]:
        mean, square, count = moments
        count = count + 1
        mean = beta1 * mean + (1 - beta1) * g
        square = beta2 * square + (1 - beta2) * g * g
        size = torch.sqrt(square / (1 - beta2**count)) + eps
        return v - lr * (mean / (1 - beta1**count)) / size, (mean, square, count)

    return Optimizer(init, step, limit=float("inf"))
