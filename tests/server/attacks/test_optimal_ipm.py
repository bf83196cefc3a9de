import pytest
import torch
from clients_sent import messages

from troth.server.attacks.optimal_ipm import optimal_ipm


def watchful(messages):
    """Leaves out rows longer than 6, and takes the mean."""
    return messages.update[messages.update.norm(dim=1) <= 6].mean(dim=0)


def test_by_hand():
    """Rows longer than 6 are left out; the mean is (2, 0), so ε = 3 is the most."""
    sent = messages(torch.tensor([[1.0, 1.0], [3.0, -1.0], [7.0, 7.0]]).double())
    found = optimal_ipm(sent, torch.arange(3) == 2, watchful, evaluations=40).update[2]
    assert found.tolist() == pytest.approx([-6.0, 0.0], rel=1e-3, abs=0)
    assert found.norm() <= 6
