"""The kernel beside the plain code, on a GPU; without one there is nothing to run."""

import pytest
import torch

from troth.networks import convolution

windows = pytest.importorskip("troth.networks.kernels.windows")
pytestmark = pytest.mark.usefixtures("gpu")

SHAPES = [  # clients, batch, height, width, channels in and out, kernel, padding
    (2, 2, 7, 6, 16, 17, 3, 3, 1, 1),
    (3, 3, 14, 14, 32, 64, 5, 5, 2, 2),
    (1, 2, 5, 9, 20, 40, 4, 2, 0, 1),
    (2, 2, 8, 8, 16, 16, 3, 3, -1, -1),  # the inputs' gradient of a wide padding
    (1, 1, 4, 4, 33, 65, 1, 1, 3, 4),
    (5, 16, 14, 14, 64, 32, 5, 5, 2, 2),
]


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def far(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("dtype", "tf32", "most"),
    [
        (torch.float32, False, 2e-6),
        (torch.float32, True, 1e-3),
        (torch.bfloat16, False, 1e-2),
    ],
)
def test_convolutions_are_those_of_windows_laid_out(shape, dtype, tf32, most):
    n, b, h, wide, c, o, p, q, above, left = shape
    x, w = drawn(n, b, h, wide, c, dtype=dtype), drawn(n, p, q, c, o, dtype=dtype)
    with torch.backends.cudnn.flags(allow_tf32=tf32):
        ours = windows.convolve(x, w, above, left)
        g = torch.randn_like(ours)
        by_tap = windows.weigh(x, g, p, q, above, left)
    plain = convolution.convolve_plainly(x.double(), w.double(), above, left)
    plainly = convolution.weigh_plainly(x.double(), g.double(), p, q, above, left)
    assert ours.shape == plain.shape and ours.dtype == dtype
    assert far(ours, plain) < most and far(by_tap, plainly) < most


def test_a_client_alone_gets_the_same_bits():
    x, w = drawn(7, 3, 14, 14, 32), drawn(7, 5, 5, 32, 64)
    whole = windows.convolve(x, w, 2, 2)
    g = torch.randn_like(whole)
    slopes = windows.weigh(x, g, 5, 5, 2, 2)
    for k in range(7):
        own = slice(k, k + 1)
        assert torch.equal(windows.convolve(x[own], w[own], 2, 2), whole[own])
        assert torch.equal(windows.weigh(x[own], g[own], 5, 5, 2, 2), slopes[own])


def test_lifted_steps_are_those_of_torch():
    """Through vmap and grad, as clients step: with kernels, and with torch's own."""

    def loss(w, x):
        h = torch.relu(torch.conv2d(x, w[0], None, (1, 1), (2, 2)))
        return torch.conv2d(h, w[1], None, (1, 1), (0, 1)).square().mean()

    w = drawn(4, 32, 16, 5, 5), drawn(4, 16, 32, 3, 3)
    x = drawn(4, 2, 16, 9, 9)
    step = torch.func.vmap(torch.func.grad(loss))
    with torch.backends.cudnn.flags(allow_tf32=False):
        plain = step(w, x)
        with convolution.Together():
            ours = step(w, x)
    assert all(far(a, b) < 1e-5 for a, b in zip(ours, plain, strict=True))
