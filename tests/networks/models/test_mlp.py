import torch
from torch import nn

from troth.networks.models.linear import linear
from troth.networks.models.mlp import mlp


def test_layers_and_their_sizes():
    net = mlp((1, 4, 4), 3, widths=[5, 2])
    shapes = [tuple(p.shape) for p in net.parameters()]
    assert shapes == [(5, 16), (5,), (2, 5), (2,), (3, 2), (3,)]
    assert [type(m) for m in net.children()] == [
        nn.Flatten,
        *(nn.Linear, nn.ReLU) * 2,
        nn.Linear,
    ]
    assert net(torch.randn(6, 1, 4, 4)).shape == (6, 3)


def test_without_widths_it_is_linear():
    torch.manual_seed(0)
    a = mlp((7,), 3, widths=[])
    torch.manual_seed(0)
    b = linear((7,), 3)
    x = torch.randn(2, 7)
    assert torch.equal(a(x), b(x))


def test_dropout_is_for_hidden_units():
    net = mlp((7,), 3, widths=[5, 4], dropout=0.3)
    hidden = [nn.Linear, nn.ReLU, nn.Dropout]
    assert [type(m) for m in net.children()] == [
        nn.Flatten,
        *hidden,
        *hidden,
        nn.Linear,
    ]
    assert {m.p for m in net.children() if isinstance(m, nn.Dropout)} == {0.3}
    assert "Dropout" not in str(mlp((7,), 3, widths=[5, 4]))
    assert "Dropout" not in str(mlp((7,), 3, widths=[], dropout=0.3))
