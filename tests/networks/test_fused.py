"""Operations in one pass beside those of torch. On a CPU the plain code runs."""

import pytest
import torch
from torch.nn.functional import max_pool2d

from troth.networks import fused

SIZES = [  # images of a client, channels, height, width; window
    (3, 4, 6, 8, 2, 2),
    (2, 3, 7, 9, 2, 3),
    (1, 1, 5, 5, 5, 5),
    (2, 2, 4, 3, 1, 1),
    (2, 5, 3, 2, 2, 2),
]


def drawn(n, images, c, h, w):
    x = torch.randn(n * images, h, w, c, dtype=torch.float64).permute(0, 3, 1, 2)
    return x, torch.randn(n, c, dtype=torch.float64)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_pooling_is_that_of_torch(size, relu, biased):
    images, c, h, w, p, q = size
    x, bias = drawn(2, images, c, h, w)
    x.requires_grad_()
    before = x + bias.repeat_interleave(images, 0)[..., None, None] if biased else x
    plain = max_pool2d(before.relu() if relu else before, (p, q))
    g = torch.randn_like(plain)
    plain.backward(g)
    given = x.detach(), bias if biased else None, relu, p, q
    found, places = torch.ops.troth.pool(*given)
    assert torch.equal(found, plain) and places.dtype == torch.uint8
    assert torch.equal(torch.ops.troth.unpool(g, places, p, q, h, w), x.grad)
    order = torch.channels_last
    assert found.is_contiguous(memory_format=order)


def test_a_place_is_none_where_relu_gives_nothing():
    x = torch.tensor([[-1.0, -2.0], [3.0, 0.0]])[:, None, :, None]
    found, places = fused.pool(x, None, True, 2, 1)
    assert found.flatten().tolist() == [0.0, 3.0]
    assert places.flatten().tolist() == [255, 0]


def test_a_number_that_is_none_passes_through():
    x = torch.tensor([[[[1.0, torch.nan], [2.0, 0.0]]]])
    for relu in (False, True):
        found, places = fused.pool(x, None, relu, 2, 2)
        assert found.isnan().all() and places.item() == 1


def test_a_row_is_taken_from_all_rows():
    rows, w = torch.randn(3, 5), torch.randn(5)
    assert torch.equal(torch.ops.troth.minus(rows, w), rows - w)
