"""Types of adversarial inputs and of the methods that make them."""

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
    """A method that makes adversarial inputs."""

    worst: Callable[[Tensor, Batch], Worst]  # parameters, batch → adversarial inputs
    expect: Callable[[Tensor], None]  # raises Refusal if inputs are out of range


def rows(mask: Tensor, x: Tensor) -> Tensor:
    """Reshape one value per example, [b], to [b, 1, …] with as many axes as x."""
    return mask.reshape(-1, *[1] * (x.dim() - 1))


def worse(new: Worst, old: Worst) -> Worst:
    """For every example, return the new input if its loss is higher, else the old one.

    With equal losses or NaN, the old input is kept.
    """
    higher = new.loss > old.loss
    pairs = zip(new, old, strict=True)
    return Worst(*(torch.where(rows(higher, a), a, b) for a, b in pairs))
