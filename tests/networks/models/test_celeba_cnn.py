import math

import torch
from torch.nn.functional import batch_norm, conv2d, linear, pad

from troth.networks.models.celeba_cnn import celeba_cnn


def same_pool(x):
    """TensorFlow's « same » max-pooling by 2: a row of −∞ after an odd side."""
    x = pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2), value=-math.inf)
    b, c, h, w = x.shape
    return x.reshape(b, c, h // 2, 2, w // 2, 2).amax((3, 5))


def by_hand(net, x, training):
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


def test_is_leafs_network_with_its_gradient(agree, moved):
    torch.manual_seed(0)
    net = moved(celeba_cnn((3, 21, 18), 2, channels=5).double())
    agree(net, by_hand, 50 * torch.randn(4, 3, 21, 18, dtype=torch.float64))


def test_has_the_parameters_of_the_paper():
    net = celeba_cnn((3, 84, 84), 2)
    assert sum(p.numel() for p in net.parameters()) == 31_202
    assert net.get_parameter("17.weight").shape == (2, 6 * 6 * 32)
    assert net(torch.zeros(2, 3, 84, 84)).shape == (2, 2)


def test_takes_images_of_any_size():
    for side in range(1, 20):
        net = celeba_cnn((1, side, 33 - side), 3, channels=2).eval()
        assert net(torch.randn(2, 1, side, 33 - side)).shape == (2, 3)


def test_glorot_bounds_and_zero_bias(glorot):
    torch.manual_seed(0)
    glorot(celeba_cnn((3, 84, 84), 2))
