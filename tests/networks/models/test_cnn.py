import torch
from torch import nn
from torch.nn.functional import conv2d, max_pool2d

from troth.networks.models.cnn import cnn


def test_has_the_parameters_of_the_papers(count):
    assert count(cnn((1, 28, 28), 10)) == 3_274_634  # Fashion
    femnist = cnn((1, 28, 28), 62, channels=[16, 32], widths=[128], dropout=[0.25, 0.5])
    assert count(femnist) == 222_078


def test_dropout_stands_before_each_fully_connected_layer():
    net = cnn((1, 8, 8), 3, channels=[2], widths=[5, 4], dropout=[0.25, 0.0, 0.5])
    kinds = [type(m) for m in net.children()][3:]
    hidden = [nn.Linear, nn.ReLU]
    assert kinds == [nn.Flatten, nn.Dropout, *hidden, *hidden, nn.Dropout, nn.Linear]
    assert [m.p for m in net.children() if isinstance(m, nn.Dropout)] == [0.25, 0.5]
    x = torch.randn(64, 1, 8, 8)
    assert not torch.equal(net.train()(x), net(x))
    none, plain = (
        cnn((1, 8, 8), 3, channels=[2], widths=[5], dropout=dropout)
        for dropout in ([], [0.0, 0.0])
    )
    assert str(none) == str(plain) and "Dropout" not in str(none)


def by_hand(net, x, training):
    w, b, v, c = net.parameters()
    return max_pool2d(torch.relu(conv2d(x, w, b, padding=1)), 2).flatten(1) @ v.T + c


def test_is_conv_relu_pool_with_its_gradient(agree):
    torch.manual_seed(0)
    net = cnn((2, 9, 6), 3, channels=[4], widths=[], kernel=3, init="torch").double()
    agree(net, by_hand, torch.randn(5, 2, 9, 6, dtype=torch.float64))


def test_glorot_bounds_and_zero_bias(glorot):
    torch.manual_seed(0)
    glorot(cnn((1, 28, 28), 10))
    other = cnn((1, 28, 8), 10, channels=[1, 1, 1], init="torch")  # the smallest image
    assert all(bias.any() for bias in list(other.parameters())[1::2])
