"""Traces of small networks, with and without what is computed in one pass."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from troth.engine import images, trace
from troth.networks.convolution import Together

N = 3


class Twice(nn.Module):
    """Reads images before and after pooling."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 4, 3, padding=1), nn.LazyLinear(5)

    def forward(self, x):
        x = self.one(x).relu()
        parts = torch.max_pool2d(x, 2).flatten(1), x.flatten(1)
        return self.two(torch.cat(parts, 1))


class Reads(nn.Module):
    """Reads the places of a pooling."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 4, 3, padding=1), nn.LazyLinear(5)

    def forward(self, x):
        x = self.one(x).relu()
        x, where = nn.functional.max_pool2d(x, 2, return_indices=True)
        return self.two((x + where).flatten(1))


def before(*layers):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(5))


def first(**options):
    return nn.Conv2d(1, 4, 5, padding=2, **options)


NETWORKS = {  # network; poolings, ReLUs and sums of images that are left
    "ditto": (before(first(), nn.ReLU(), nn.MaxPool2d(2)), (0, 0, 0)),
    "wide windows": (before(first(), nn.ReLU(), nn.MaxPool2d((2, 3))), (0, 0, 0)),
    "no bias": (before(first(bias=False), nn.ReLU(), nn.MaxPool2d(2)), (0, 0, 0)),
    "pooled first": (before(first(), nn.MaxPool2d(2), nn.ReLU()), (0, 1, 1)),
    "no pooling": (before(first(), nn.ReLU()), (0, 0, 0)),
    "no ReLU": (before(first(), nn.Tanh(), nn.MaxPool2d(2)), (0, 0, 1)),
    "overlaps": (before(first(), nn.ReLU(), nn.MaxPool2d(3, 2)), (1, 0, 0)),
    "padded": (before(first(), nn.ReLU(), nn.MaxPool2d(2, padding=1)), (1, 0, 0)),
    "ceil": (before(first(), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)), (1, 0, 0)),
    "two of them": (
        before(first(), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.MaxPool2d(2)),
        (0, 0, 0),
    ),
    "used twice": (Twice(), (0, 0, 1)),  # the sum of two gradients
    "places": (Reads(), (1, 0, 1)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_one_pass_gives_the_same_bits(name):
    net, left = NETWORKS[name]
    net(torch.randn(2, 1, 14, 15))
    given = {key: 0.3 * torch.randn(N, *p.shape) for key, p in net.named_parameters()}
    x, y = torch.randn(N, 4, 1, 14, 15), torch.randint(5, (N, 4))

    def loss(given, x, y):
        with Together():
            out = functional_call(net, given, (x,))
        return nn.functional.cross_entropy(out, y)

    step = vmap(grad(loss))
    graph = make_fx(lambda *given: [*step(*given).values()])(given, x, y)
    trace.compute_once(graph)
    trace.by_kernels(graph)
    plain = graph(given, x, y)
    images.pool_at_once(graph)
    found = graph(given, x, y)
    assert all(torch.equal(a, b) for a, b in zip(found, plain, strict=True))
    aten = torch.ops.aten
    pools = (aten.max_pool2d_with_indices.default, aten.relu.default, aten.add.Tensor)
    nodes = [node for node in graph.graph.nodes if node.target in pools]
    of_images = [n for n in nodes if n.target is pools[0] or n.meta["val"].dim() == 5]
    assert tuple([n.target for n in of_images].count(t) for t in pools) == left


def test_float64_is_left_to_torch():
    """The kernels do not take it."""
    net = NETWORKS["ditto"][0].double()
    given = {
        key: torch.randn(N, *p.shape).double() for key, p in net.named_parameters()
    }

    def value(given, x):
        with Together():
            return functional_call(net, given, (x,)).sum()

    x = torch.randn(N, 4, 1, 14, 15).double()
    graph = make_fx(lambda *given: [*vmap(grad(value))(*given).values()])(given, x)
    graph.graph.eliminate_dead_code()
    before = str(graph.graph)
    images.pool_at_once(graph)
    assert str(graph.graph) == before
    net.float()
