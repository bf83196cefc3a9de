import torch
from torch import nn

from troth.networks.models.linear import linear
from troth.networks.models.mlp import mlp


def kinds(net):
    return [type(m).__name__ for m in net.children()]


def test_layers_and_their_sizes():
    net = mlp((1, 4, 4), 3, widths=[5, 2])
    shapes = [tuple(p.shape) for p in net.parameters()]
    assert shapes == [(5, 16), (5,), (2, 5), (2,), (3, 2), (3,)]
    assert kinds(net) == ["Flatten", "Linear", "ReLU", "Linear", "ReLU", "Linear"]
    net = mlp((7,), 3, widths=[5, 4], dropout=0.3)
    assert kinds(net) == ["Flatten", *["Linear", "ReLU", "Dropout"] * 2, "Linear"]
    assert {m.p for m in net.children() if isinstance(m, nn.Dropout)} == {0.3}


def test_without_widths_it_is_linear():
    nets = []
    for build in (
        lambda: mlp((7,), 3, widths=[], dropout=0.3),
        lambda: linear((7,), 3),
    ):
        torch.manual_seed(0)
        nets.append(build())
    x = torch.randn(2, 7)
    assert torch.equal(nets[0](x), nets[1](x))
