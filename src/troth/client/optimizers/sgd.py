"""Plain stochastic gradient descent."""

import torch
from torch import Tensor

from troth.types import Carry, Optimizer


def sgd() -> Optimizer:
    """Take plain gradient steps: v ← v − lr·g, with parameters v and gradient g."""

    def step(v: Tensor, g: Tensor, moments: Carry, lr: Tensor) -> tuple[Tensor, Carry]:
        return torch.addcmul(v, g, -lr), moments

    return Optimizer(lambda v: (), step, limit=2.0)
