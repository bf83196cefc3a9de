"""The kernels beside the plain code, on a GPU; without one there is nothing to run."""

import pytest
import torch

from troth.networks import fused

pooling = pytest.importorskip("troth.networks.kernels.pooling")
pytestmark = pytest.mark.usefixtures("gpu")

SIZES = [  # images of a client, channels, height, width; window
    (16, 32, 28, 28, 2, 2),
    (5, 33, 15, 17, 2, 2),
    (2, 3, 7, 9, 2, 3),
    (3, 1, 9, 9, 3, 3),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pooling_is_the_plain_code(size, relu, biased, dtype):
    images, c, h, w, p, q = size
    x = torch.randn(3 * images, h, w, c, device="cuda").to(dtype).permute(0, 3, 1, 2)
    rows = torch.randn(3, c + 5, device="cuda").to(dtype)  # a bias lies in a row
    bias = rows[:, 2 : 2 + c] if biased else None
    assert pooling.fits(x, x.numel(), p, q)
    for given in (x, x.contiguous()):
        found, places = pooling.pool(given, bias, relu, p, q)
        plain, where = fused.pool(x, bias, relu, p, q)
        assert torch.equal(found, plain)
        for g in (torch.randn_like(plain), torch.randn_like(plain).contiguous()):
            back = pooling.unpool(g, places, p, q, h, w)
            assert torch.equal(back, fused.unpool(g, where, p, q, h, w))


def test_what_the_kernels_do_not_take():
    x = torch.zeros(1, 1, 2, 2, device="cuda")
    assert not pooling.fits(x.double(), 4, 2, 2)
    assert not pooling.fits(x, 4, 16, 16) and not pooling.fits(x, 2**31, 2, 2)
