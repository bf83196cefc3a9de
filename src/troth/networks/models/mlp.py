"""The multilayer perceptron."""

import math

from torch import nn

from troth.networks.layers import dense
from troth.types import Refusal


def mlp(
    shape: tuple[int, ...],
    classes: int,
    *,
    widths: list[int] = [128],  # noqa: B006
    dropout: float = 0.0,
) -> nn.Module:
    """Build fully connected layers with ReLU between them.

    f(x) = W_k·relu(… relu(W_1·x + b_1) …) + b_k for the flattened example x. Initial
    weights are torch's default.

    Args:
        shape: Shape of one example; it is flattened.
        classes: Number of classes; 0 means regression.
        widths: Widths of the hidden layers. [] is a linear model.
        dropout: Probability that a hidden unit is dropped in training; 0 means no
            dropout. Inputs are not dropped.

    Returns:
        The network.
    """
    if not 0 <= dropout < 1:
        raise Refusal(f"model.dropout = {dropout} must be at least 0 and below 1")
    drops = [0.0, *[dropout] * len(widths)]
    return nn.Sequential(
        nn.Flatten(), *dense(math.prod(shape), widths, max(classes, 1), drops)
    )
