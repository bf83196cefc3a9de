"""Types of worst-case inputs and of their makers."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from troth.types import Batch


class Worst(NamedTuple):
    """Inputs on which a model has a high loss, with its losses and outputs."""

    x: Tensor  # [b, …] in the units of the data, not rounded
    loss: Tensor  # [b] losses of the model
    outputs: Tensor  # [b, k]


class Adversarial(NamedTuple):
    """A maker of worst-case inputs."""

    worst: Callable[[Tensor, Batch], Worst]  # parameters, batch → near its inputs
    expect: Callable[[Tensor], None]  # refuses data outside the range


def rows(mask: Tensor, x: Tensor) -> Tensor:
    """Reshape one value per example, [b], to as many axes as x has."""
    return mask.reshape(-1, *[1] * (x.dim() - 1))


def worse(new: Worst, old: Worst) -> Worst:
    """Take, for each example, the input with the higher loss; if equal or NaN, the old.

    If losses are equal, the earlier input wins, because it lies closer to the original.
    """
    higher = new.loss > old.loss
    pairs = zip(new, old, strict=True)
    return Worst(*(torch.where(rows(higher, a), a, b) for a, b in pairs))
