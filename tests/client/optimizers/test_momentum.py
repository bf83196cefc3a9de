import pytest
import torch

from troth.client.optimizers.momentum import momentum


def test_by_hand():
    optimizer, lr = momentum(beta=0.5), torch.tensor(0.1)
    v = torch.tensor([1.0])
    v, moments = optimizer.step(v, torch.tensor([4.0]), optimizer.init(v), lr)
    assert v.item() == pytest.approx(0.6)  # m = 4
    v, moments = optimizer.step(v, torch.tensor([1.0]), moments, lr)
    assert v.item() == pytest.approx(0.3)  # m = 2 + 1
    assert moments[0].item() == pytest.approx(3.0)
