from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, linear, pad

from troth import lookup
from troth.networks.models.celeba_cnn import celeba_cnn
from troth.types import Refusal


def same_pool(x: Tensor) -> Tensor:
    """TensorFlow's « same » max-pooling by 2: a row of −∞ after an odd side."""
    x = pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2), value=-math.inf)
    b, c, h, w = x.shape
    return x.reshape(b, c, h // 2, 2, w // 2, 2).amax((3, 5))


def by_hand(net: nn.Module, x: Tensor, training: bool) -> Tensor:
    t = dict(net.state_dict(keep_vars=True))
    for at in (0, 4, 8, 12):
        x = conv2d(x, t[f"{at}.weight"], t[f"{at}.bias"], padding=1)
        mean, var, w, b = (
            t[f"{at + 1}.{name}"]
            for name in ("running_mean", "running_var", "weight", "bias")
        )
        x = batch_norm(x, mean.clone(), var.clone(), w, b, training, eps=0.001)
        x = torch.relu(same_pool(x))
    return linear(x.flatten(1), t["17.weight"], t["17.bias"])


@pytest.mark.parametrize("training", [True, False])
def test_is_leafs_network_with_its_gradient(training: bool) -> None:
    torch.manual_seed(0)
    net = celeba_cnn((3, 21, 18), 2, channels=5).double()
    for name, value in net.state_dict().items():
        if "running_var" in name:
            value.uniform_(0.5, 2.0)
        elif "running_mean" in name:
            value.normal_()
    net.train(training)
    x = 50 * torch.randn(4, 3, 21, 18, dtype=torch.float64)
    parameters = list(net.parameters())
    plain = by_hand(net, x, training)
    expected = torch.autograd.grad(plain.square().sum(), parameters)
    out = net(x)
    assert torch.allclose(out, plain, rtol=1e-9)
    ours = torch.autograd.grad(out.square().sum(), parameters)
    for a, b in zip(ours, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-7)


def test_has_the_parameters_of_the_paper() -> None:
    net = celeba_cnn((3, 84, 84), 2)
    assert sum(p.numel() for p in net.parameters()) == 31_202
    assert net.get_parameter("17.weight").shape == (2, 6 * 6 * 32)
    assert net(torch.zeros(2, 3, 84, 84)).shape == (2, 2)


@pytest.mark.parametrize("side", range(1, 20))
def test_takes_images_of_any_size(side: int) -> None:
    net = celeba_cnn((1, side, 33 - side), 3, channels=2).eval()
    assert net(torch.randn(2, 1, side, 33 - side)).shape == (2, 3)


def test_glorot_bounds_and_zero_bias() -> None:
    torch.manual_seed(0)
    for module in celeba_cnn((3, 84, 84), 2).modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            w, area = module.weight, math.prod(module.weight.shape[2:])
            bound = math.sqrt(6 / ((w.shape[0] + w.shape[1]) * area))
            assert w.abs().max() <= bound
            assert w.abs().max() > 0.97 * bound  # fails with 0.97**864 < 1e-11
            assert module.bias is not None and not module.bias.any()


def test_refuses_bad_options() -> None:
    for option in ("channels", "blocks"):
        with pytest.raises(Refusal, match=rf"model\.{option} = 0 must be a whole"):
            celeba_cnn((3, 84, 84), 2, **{option: 0})


def test_says_where_it_comes_from() -> None:
    (entry,) = lookup.about("model", "celeba_cnn").citations
    assert entry.startswith("@misc{caldas2018leaf")
