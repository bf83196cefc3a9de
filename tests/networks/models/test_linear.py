import torch

from troth.networks.models.linear import linear


def test_is_w_times_x_plus_b():
    net = linear((2, 3), 4)
    w, b = net.parameters()
    x = torch.randn(5, 2, 3)
    assert torch.allclose(net(x), x.reshape(5, 6) @ w.T + b)


def test_zero_and_bias():
    net = linear((7,), 3, bias=False, zero=True)
    (w,) = net.parameters()
    assert w.shape == (3, 7) and not w.any()
    assert not any(p.any() for p in linear((7,), 3, zero=True).parameters())
