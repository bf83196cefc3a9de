"""What the tests of several attacks share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from troth import seeding
from troth.types import Messages

Make = Callable[..., Messages]


@pytest.fixture
def make() -> Make:
    """Messages with these updates, of clients 10, 11, … unless told otherwise."""

    def messages(update: Tensor, client: Tensor | None = None) -> Messages:
        n = len(update)
        return Messages(
            update,
            torch.ones(n, 2, dtype=update.dtype),
            torch.full((n,), torch.nan),
            torch.arange(1, n + 1),
            torch.arange(n) + 10 if client is None else client,
        )

    return messages


@pytest.fixture
def key() -> Tensor:
    """Of a round."""
    return seeding.keys(0, "attack", 3, torch.tensor(0))
