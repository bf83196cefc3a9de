"""Linear and logistic regression."""

import math

from torch import nn


def linear(
    shape: tuple[int, ...], classes: int, *, bias: bool = True, zero: bool = False
) -> nn.Module:
    """Build one linear layer: logistic regression, or linear regression.

    f(x) = W·x + b on the flattened example. There is one output per class, or a single
    output for regression.

    Args:
        shape: Shape of one example; it is flattened.
        classes: Number of classes; 0 is regression.
        bias: Whether the layer has a bias b.
        zero: Whether initial weights are zeros instead of torch's uniform ±1/√inputs.

    Returns:
        The network.
    """
    layer = nn.Linear(math.prod(shape), max(classes, 1), bias=bias)
    if zero:
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
    return nn.Sequential(nn.Flatten(), layer)
