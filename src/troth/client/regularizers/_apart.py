"""Differences of two models and their lengths, whatever the size of their numbers."""

import torch
from torch import Tensor

from troth import numerics
from troth.types import Task


def apart(v: Tensor, w: Tensor, task: Task) -> Tensor:
    """Return v − w; 0 for running statistics, which nobody learns."""
    return numerics.off_tail(v - w, task.tail)


def length(away: Tensor) -> Tensor:
    """Compute ‖away‖ without overflow or underflow of squares."""
    most = away.detach().abs().amax()
    scale = torch.where(most > 0, most, 1)
    norm: Tensor = scale * torch.linalg.vector_norm(away / scale)
    return norm
