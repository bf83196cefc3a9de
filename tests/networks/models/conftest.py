"""What the tests of networks share: statistics unlike the start's, and a comparison."""

import math

import pytest
import torch
from torch import nn


@pytest.fixture
def agree():
    """Check that a network is what is written out by hand, with its gradient.

    Takes the network in float64, a function (net, x, training) → outputs, and x.
    """

    def check(net, by_hand, x):
        parameters = list(net.parameters())
        for training in (True, False):
            net.train(training)
            plain, out = by_hand(net, x, training), net(x)
            assert torch.allclose(out, plain, rtol=1e-9, atol=1e-14)
            expected = torch.autograd.grad(plain.square().sum(), parameters)
            ours = torch.autograd.grad(out.square().sum(), parameters)
            for a, b in zip(ours, expected, strict=True):
                assert torch.allclose(a, b, rtol=1e-8, atol=1e-9)

    return check


@pytest.fixture
def count():
    return lambda net: sum(p.numel() for p in net.parameters())


@pytest.fixture
def moved():
    """Gives a network running statistics unlike those at the start."""

    def change(net):
        for name, value in net.state_dict().items():
            if "running_var" in name:
                value.uniform_(0.5, 2.0)
            elif "running_mean" in name:
                value.normal_()
        return net

    return change


@pytest.fixture
def glorot():
    """Check that all layers start within ±√(6/(fan_in + fan_out)), with bias 0."""

    def check(net):
        for module in net.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                w, area = module.weight, math.prod(module.weight.shape[2:])
                bound = math.sqrt(6 / ((w.shape[0] + w.shape[1]) * area))
                # fails with 0.97**800 < 1e-10
                assert 0.97 * bound < w.abs().max() <= bound
                assert not module.bias.any()

    return check
