import pytest
import torch
from clients_sent import column, messages

from troth.server.attacks.min_max import min_max


@pytest.mark.parametrize("direction", ["std", "unit", "sign"])
def test_by_hand(direction):
    """Benign 0 and 2: mean 1, widest 2. 1 − γσ is 2 from the farther one at 0."""
    found = min_max(column(0.0, 9.0, 2.0), torch.arange(3) == 1, direction=direction)
    assert found.update.tolist() == [[0.0], [0.0], [2.0]]


def test_by_hand_in_the_plane():
    """Corners (±1, 0), (0, ±1) around (3, 0): widest 2; with the way −x from (3, 0),
    the row (4, 0) is at 1 + t = 2 first: t = 1."""
    corners = torch.tensor([[4.0, 0.0], [2.0, 0.0], [3.0, 1.0], [3.0, -1.0]])
    update = torch.cat([corners, torch.zeros(2, 2)]).double()
    hostile = torch.arange(6) > 3
    found = min_max(messages(update), hostile, direction="unit").update
    torch.testing.assert_close(found[4:], torch.tensor([[2.0, 0.0]] * 2).double())
