"""How far two models lie apart, whatever the size of their numbers."""

import torch
from torch import Tensor

from troth import numerics
from troth.types import Task


def apart(v: Tensor, w: Tensor, task: Task) -> Tensor:
    """The difference v − w; 0 for running statistics, which nobody learns."""
    return numerics.off_tail(v - w, task.tail)


def length(away: Tensor) -> Tensor:
    """‖away‖, finite where it can be: no square of a number is too large or small."""
    most = away.detach().abs().amax()
    scale = torch.where(most > 0, most, 1)
    found: Tensor = scale * torch.linalg.vector_norm(away / scale)
    return found
