import math

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, linear, max_pool2d

from troth.networks.models.vgg13_bn import vgg13_bn

CONVOLUTIONS = (0, 3, 7, 10, 14, 17, 21, 24, 28, 31)  # their places in `features`


def by_hand(net, x, training):
    t = dict(net.state_dict(keep_vars=True))
    for i, at in enumerate(CONVOLUTIONS):
        x = conv2d(x, t[f"features.{at}.weight"], t[f"features.{at}.bias"], padding=1)
        norm = f"features.{at + 1}"
        mean, var = t[f"{norm}.running_mean"].clone(), t[f"{norm}.running_var"].clone()
        x = batch_norm(x, mean, var, t[f"{norm}.weight"], t[f"{norm}.bias"], training)
        x = torch.relu(x)
        x = max_pool2d(x, 2) if i % 2 else x
    x = x.mean((2, 3))
    for at in (0, 3):
        x = torch.relu(linear(x, *(t[f"classifier.{at}.{k}"] for k in KINDS)))
    return linear(x, *(t[f"classifier.6.{k}"] for k in KINDS))


KINDS = ("weight", "bias")


def test_is_the_network_with_its_gradient(agree, moved):
    torch.manual_seed(0)
    net = moved(vgg13_bn((2, 32, 70), 5, width=4, widths=[6, 7], dropout=0.0).double())
    for value in net.get_submodule("classifier").parameters():
        nn.init.normal_(value)  # with 0.01 almost nothing would come through
    agree(net, by_hand, torch.randn(3, 2, 32, 70, dtype=torch.float64))


def test_has_the_parameters_of_the_published_network(count):
    net = vgg13_bn((3, 32, 32), 10, widths=[])
    pairs = [(3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256)]
    pairs += [(256, 512), (512, 512), (512, 512), (512, 512)]
    convolutions = sum(9 * a * b + b + 2 * b for a, b in pairs)
    assert convolutions == 9_410_880  # and a linear layer
    assert count(net) == convolutions + 512 * 10 + 10 == 9_416_010
    with torch.device("meta"):  # the whole of it, without its numbers
        whole = vgg13_bn((3, 32, 32), 10)
    dense = 512 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 10 + 10
    assert count(whole) == convolutions + dense == 28_334_410
    assert len([*whole.named_parameters()]) == 46  # by the names of `by_hand`
    assert whole.get_parameter("classifier.6.weight").shape == (10, 4096)


def test_starts_as_torchvision_does():
    torch.manual_seed(0)
    net = vgg13_bn((3, 32, 32), 10, widths=[512])
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            spread = 0.01
            if isinstance(module, nn.Conv2d):
                spread = math.sqrt(2 / (9 * module.out_channels))
            ratio = float(module.weight.detach().std()) / spread
            # of at least 1,728 normal draws: outside ±10 % with probability < 1e-8
            assert ratio == pytest.approx(1, abs=0.1)
            assert module.bias is not None and not module.bias.any()


def test_dropout_is_between_fully_connected_layers():
    net = vgg13_bn((1, 32, 32), 3, width=1, widths=[50, 40])
    kinds = [type(m).__name__ for m in net.get_submodule("classifier")]
    assert kinds == [*["Linear", "ReLU", "Dropout"] * 2, "Linear"]
    assert [m.p for m in net.modules() if isinstance(m, nn.Dropout)] == [0.5, 0.5]
