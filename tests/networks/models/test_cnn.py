from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, max_pool2d

from troth import lookup
from troth.networks.models.cnn import cnn
from troth.types import Refusal


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_has_the_parameters_of_the_papers() -> None:
    assert count(cnn((1, 28, 28), 10)) == 3_274_634  # Fashion
    femnist = cnn((1, 28, 28), 62, channels=[16, 32], widths=[128], dropout=[0.25, 0.5])
    assert count(femnist) == 222_078


def test_dropout_stands_before_each_fully_connected_layer() -> None:
    net = cnn((1, 8, 8), 3, channels=[2], widths=[5, 4], dropout=[0.25, 0.0, 0.5])
    kinds = [type(m) for m in net.children()][3:]
    hidden = [nn.Linear, nn.ReLU]
    assert kinds == [nn.Flatten, nn.Dropout, *hidden, *hidden, nn.Dropout, nn.Linear]
    assert [m.p for m in net.children() if isinstance(m, nn.Dropout)] == [0.25, 0.5]
    x = torch.randn(64, 1, 8, 8)
    assert torch.equal(net.eval()(x), net(x))
    assert not torch.equal(net.train()(x), net(x))


def test_without_dropout_nothing_is_inserted() -> None:
    made = []
    for dropout in ([], [0.0, 0.0]):
        torch.manual_seed(0)
        made.append(cnn((1, 8, 8), 3, channels=[2], widths=[5], dropout=dropout))
    assert str(made[0]) == str(made[1]) and "Dropout" not in str(made[0])
    x = torch.randn(4, 1, 8, 8)
    assert torch.equal(made[0](x), made[1](x))


@pytest.mark.parametrize(
    "dropout", [[0.5], [0.5] * 3, [0.5, 1.0], [-0.1, 0], [math.nan] * 2]
)
def test_refuses_bad_dropout(dropout: list[float]) -> None:
    with pytest.raises(Refusal, match=r"model\.dropout = \[.* must hold 2 numbers of"):
        cnn((1, 8, 8), 3, channels=[2], widths=[5], dropout=dropout)


def test_is_conv_relu_pool_with_its_gradient() -> None:
    torch.manual_seed(0)
    net = cnn((2, 9, 6), 3, channels=[4], widths=[], kernel=3, init="torch").double()
    w, b, v, c = net.parameters()
    x = torch.randn(5, 2, 9, 6, dtype=torch.float64)
    plain = max_pool2d(torch.relu(conv2d(x, w, b, padding=1)), 2).flatten(1) @ v.T + c
    assert torch.allclose(net(x), plain, atol=1e-14)
    ours = torch.autograd.grad(net(x).square().sum(), [w, b, v, c])
    theirs = torch.autograd.grad(plain.square().sum(), [w, b, v, c])
    for a, e in zip(ours, theirs, strict=True):
        assert torch.allclose(a, e, atol=1e-12)


def test_glorot_bounds_and_zero_bias() -> None:
    torch.manual_seed(0)
    net = cnn((1, 28, 28), 10)
    for module in net.children():
        if isinstance(module, nn.Conv2d | nn.Linear):
            w, area = module.weight, math.prod(module.weight.shape[2:])
            bound = math.sqrt(6 / ((w.shape[0] + w.shape[1]) * area))
            assert w.abs().max() <= bound
            assert w.abs().max() > 0.97 * bound  # fails with 0.97**800 < 1e-10
            assert module.bias is not None and not module.bias.any()
    other = cnn((1, 28, 28), 10, init="torch")
    assert all(bias.any() for bias in list(other.parameters())[1::2])


def test_regression_has_one_output() -> None:
    assert cnn((1, 8, 8), 0, widths=[4])(torch.randn(2, 1, 8, 8)).shape == (2, 1)


@pytest.mark.parametrize("shape", [(784,), (28, 28), (1, 1, 28, 28)])
def test_refuses_what_is_no_image(shape: tuple[int, ...]) -> None:
    with pytest.raises(Refusal, match="channels, height, width"):
        cnn(shape, 10)


def test_refuses_images_too_small_with_both_numbers() -> None:
    with pytest.raises(Refusal, match=r"at least 8, and they are 28 and 7; .* most 2"):
        cnn((1, 28, 7), 10, channels=[1, 1, 1])
    cnn((1, 28, 8), 10, channels=[1, 1, 1])


def test_refuses_bad_options() -> None:
    with pytest.raises(Refusal, match=r"model\.kernel = 4"):
        cnn((1, 28, 28), 10, kernel=4)
    with pytest.raises(Refusal, match=r"model\.kernel = -1"):
        cnn((1, 28, 28), 10, kernel=-1)
    with pytest.raises(Refusal, match=r"model\.channels = \[0\]"):
        cnn((1, 28, 28), 10, channels=[0])
    with pytest.raises(Refusal, match=r"model\.channels is empty"):
        cnn((1, 28, 28), 10, channels=[])
    with pytest.raises(Refusal, match=r"model\.widths = \[-3\]"):
        cnn((1, 28, 28), 10, widths=[-3])
    with pytest.raises(Refusal, match="'glorot', 'torch'"):
        lookup.check("model", "cnn", {"init": "he"})


def test_says_where_it_comes_from() -> None:
    assert len(lookup.about("model", "cnn").citations) == 2
