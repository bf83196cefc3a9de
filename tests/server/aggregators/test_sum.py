from __future__ import annotations

import torch

from troth.server.aggregators.sum import sum as added
from troth.types import Messages


def test_by_hand() -> None:
    update = torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.5, 0.0]])
    rows = torch.arange(3)
    found = added(Messages(update, update[:, :0], torch.zeros(3), rows, rows))
    assert torch.allclose(found, torch.tensor([4.5, -2.0]))
