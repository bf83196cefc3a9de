"""The multilayer perceptron."""

from __future__ import annotations

import math

from torch import nn

from troth.layers import dense


def mlp(
    shape: tuple[int, ...],
    classes: int,
    *,
    widths: list[int] = [128],  # noqa: B006
) -> nn.Module:
    """Fully connected layers with ReLU between them.

    f(x) = W_k·relu(… relu(W_1·x + b_1) …) + b_k on the flattened example, from torch's
    own initialisation.

    Args:
        shape: of one example; it is flattened.
        classes: how many; 0 is regression.
        widths: of the hidden layers; an empty list is the linear model.
    """
    return nn.Sequential(
        nn.Flatten(), *dense(math.prod(shape), widths, max(classes, 1))
    )
