import pytest
import torch

from troth.client.optimizers.momentum import momentum
from troth.client.optimizers.sgd import sgd


def test_by_hand():
    optimizer, lr = momentum(beta=0.5), torch.tensor(0.1)
    v = torch.tensor([1.0])
    v, moments = optimizer.step(v, torch.tensor([4.0]), optimizer.init(v), lr)
    assert v.item() == pytest.approx(0.6)  # m = 4
    v, moments = optimizer.step(v, torch.tensor([1.0]), moments, lr)
    assert v.item() == pytest.approx(0.3)  # m = 2 + 1
    assert moments[0].item() == pytest.approx(3.0)


def test_without_memory_it_is_sgd():
    v, g, lr = torch.randn(5), torch.randn(5), torch.tensor(0.3)
    moved, moments = momentum(beta=0.0).step(v, g, (torch.randn(5),), lr)
    assert torch.equal(moved, sgd().step(v, g, (), lr)[0])
    assert torch.equal(moments[0], g)
