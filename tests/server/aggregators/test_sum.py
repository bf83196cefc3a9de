import torch
from clients_sent import messages

from troth.server.aggregators.sum import sum as added


def test_by_hand():
    update = torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.5, 0.0]])
    found = added(messages(update))
    assert torch.allclose(found, torch.tensor([4.5, -2.0]))
