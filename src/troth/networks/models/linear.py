"""Linear and logistic regression."""

import math

from torch import nn


def linear(
    shape: tuple[int, ...], classes: int, *, bias: bool = True, zero: bool = False
) -> nn.Module:
    """Build one linear layer: logistic regression, or linear regression.

    f(x) = W·x + b for the flattened example x. There is one output per class, or a
    single output for regression.

    Args:
        shape: Shape of one example; it is flattened.
        classes: Number of classes; 0 means regression.
        bias: Whether the layer has a bias b.
        zero: Whether all initial weights are 0. If not, they are torch's, uniform in
            ±1/√(number of inputs).

    Returns:
        The network.
    """
    layer = nn.Linear(math.prod(shape), max(classes, 1), bias=bias)
    if zero:
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
    return nn.Sequential(nn.Flatten(), layer)
