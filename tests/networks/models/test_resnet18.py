import math

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, linear

from troth.networks.models.resnet18 import resnet18


def by_hand(net, x, training):
    """The network of the paper, from the numbers alone."""
    t = dict(net.state_dict(keep_vars=True))

    def conv(name, x, stride=1):
        side = t[f"{name}.weight"].shape[-1]
        return conv2d(x, t[f"{name}.weight"], None, stride, side // 2)

    def norm(name, x):
        mean, var = t[f"{name}.running_mean"].clone(), t[f"{name}.running_var"].clone()
        return batch_norm(
            x, mean, var, t[f"{name}.weight"], t[f"{name}.bias"], training
        )

    x = torch.relu(norm("bn1", conv("conv1", x)))
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = torch.relu(norm(f"{at}.bn1", conv(f"{at}.conv1", x, stride)))
            out = norm(f"{at}.bn2", conv(f"{at}.conv2", out))
            if f"{at}.downsample.0.weight" in t:
                assert stage > 1 and block == 0
                x = norm(f"{at}.downsample.1", conv(f"{at}.downsample.0", x, stride))
            x = torch.relu(out + x)
    return linear(x.mean((2, 3)), t["fc.weight"], t["fc.bias"])


def test_is_the_network_of_the_paper_with_its_gradient(agree, moved):
    torch.manual_seed(0)
    net = moved(resnet18((3, 9, 12), 5, width=4))
    for name, value in net.state_dict().items():
        if "bn" in name and name.endswith(("weight", "bias")):
            value.normal_()
    agree(net.double(), by_hand, torch.randn(6, 3, 9, 12, dtype=torch.float64))


def test_parameters_are_torchvisions(count):
    net = resnet18((3, 32, 32), 10)
    # torchvision's 11,181,642 with its 7×7 stem for 10 classes, less (49 − 9)·3·64
    assert count(net) == 11_173_962 == 11_181_642 - 40 * 3 * 64
    assert len([*net.named_parameters()]) == 62  # by the names of `by_hand`


def test_starts_as_torchvision_does():
    torch.manual_seed(0)
    net = resnet18((3, 32, 32), 10)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * math.prod(module.kernel_size)
            ratio = float(module.weight.detach().std() * math.sqrt(fan_out / 2))
            # of at least 1,728 normal draws: outside ±10 % with probability < 1e-8
            assert ratio == pytest.approx(1, abs=0.1) and module.bias is None
        if isinstance(module, nn.BatchNorm2d):
            assert bool((module.weight == 1).all()) and not bool(module.bias.any())
    bound = 1 / math.sqrt(512)
    weight = net.get_parameter("fc.weight").detach().abs()
    assert 0.97 * bound < float(weight.max()) <= bound  # fails with 0.97**5120


def test_group_norm_leaves_the_rest_of_the_batch_alone(count):
    torch.manual_seed(0)
    net = resnet18((1, 8, 8), 3, width=8, norm="group").train()
    groups = [m.num_groups for m in net.modules() if isinstance(m, nn.GroupNorm)]
    assert groups[0] == 8 and max(groups) == 32 and not dict(net.named_buffers())
    assert count(net) == count(resnet18((1, 8, 8), 3, width=8))
    x = torch.randn(4, 1, 8, 8)
    assert torch.allclose(net(x)[:1], net(x[:1]), atol=1e-5)
    other = resnet18((1, 8, 8), 3, width=8).train()
    assert not torch.allclose(other(x)[:1], other(x[:2])[:1], atol=1e-2)
