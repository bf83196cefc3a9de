"""What a way to worst-case inputs is, and what it gives."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from troth.types import Batch


class Worst(NamedTuple):
    """Inputs made against a model, and what the model says of them."""

    x: Tensor  # [b, …] fractions, in the units of the data
    loss: Tensor  # [b] of the model there
    outputs: Tensor  # [b, k]


class Adversarial(NamedTuple):
    """How worst-case inputs are made."""

    worst: Callable[[Tensor, Batch], Worst]  # parameters, batch → near its inputs
    expect: Callable[[Tensor], None]  # refuses data that this is not meant for


def rows(mask: Tensor, x: Tensor) -> Tensor:
    """One value per example, [b], with as many axes as x has."""
    return mask.reshape(-1, *[1] * (x.dim() - 1))


def worse(new: Worst, old: Worst) -> Worst:
    """Of two inputs for each example the one with the higher loss; if equal, the old.

    A loss that is not a number is never higher.
    """
    higher = new.loss > old.loss
    pairs = zip(new, old, strict=True)
    return Worst(*(torch.where(rows(higher, a), a, b) for a, b in pairs))
