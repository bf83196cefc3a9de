import pytest
import torch

from troth.networks.models.svm import SVM, svm


def test_by_hand():
    net = svm((2,), 2, l2=0.1)
    assert isinstance(net, SVM)
    with torch.no_grad():
        net.plane.weight.copy_(torch.tensor([[2.0, -1.0]]))
        net.plane.bias.fill_(0.5)
    x = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    f = net(x)
    assert f.tolist() == [[1.5], [-0.5], [2.5]]
    # s·f = 1.5, -0.5, -2.5: 0, 1.5, 3.5
    assert net.loss(f, torch.tensor([1, 1, 0])).tolist() == [0.0, 1.5, 3.5]
    assert net.penalty().item() == pytest.approx(0.1 * (4 + 1))  # b is free


def test_starts_at_zero_with_101_parameters_on_vehicle():
    net = svm((100,), 2)
    assert sum(p.numel() for p in net.parameters()) == 101
    assert not any(p.any() for p in net.parameters())
