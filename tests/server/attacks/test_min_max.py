import pytest
import torch
from clients_sent import column

from troth.server.attacks.min_max import min_max


@pytest.mark.parametrize("direction", ["std", "unit", "sign"])
def test_by_hand(direction):
    """Benign 0 and 2: mean 1, widest 2. 1 − γσ is 2 from the farther one at 0."""
    found = min_max(column(0.0, 9.0, 2.0), torch.arange(3) == 1, direction=direction)
    assert found.update.tolist() == [[0.0], [0.0], [2.0]]
