"""What the tests of several servers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from troth.types import Broadcast

Second = Callable[[Any, Any], Any]


@pytest.fixture
def defined() -> Callable[..., np.ndarray]:
    """Algorithm 2 of Reddi et al., as it stands there but for v₋₁ = 0."""

    def models(
        steps: np.ndarray, second: Second, lr: float, beta1: float, tau: float
    ) -> np.ndarray:
        m = v = x = np.zeros(steps.shape[1])
        found = []
        for step in steps:
            m = beta1 * m + (1 - beta1) * step
            v = second(v, step**2)
            x = x + lr * m / (np.sqrt(v) + tau)
            found.append(x)
        return np.stack(found)

    return models


@pytest.fixture
def walked() -> Callable[..., np.ndarray]:
    """The models that a server leads to from 0, a row a step."""

    def models(server: Any, steps: np.ndarray, **options: Any) -> np.ndarray:
        w, memory = torch.zeros(steps.shape[1]).double(), torch.zeros(0)
        found = []
        for step in torch.from_numpy(steps):
            sent = Broadcast(w, w[:0], w.new_ones(()))
            w, memory = server(sent, step, memory, **options)
            found.append(w.numpy())
        return np.stack(found)

    return models
