import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from troth.engine import trace
from troth.networks import convolution, fused

ATEN = torch.ops.aten


def traced(function, *given):
    graph = make_fx(function)(*given)
    trace.compute_once(graph)
    return graph


def targets(graph):
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=5),
    st.integers(0, 2**5 - 1),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_sums_are_products_with_ones(shape, mask, keep, seed):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    axes = [axis for axis in range(len(shape)) if mask >> axis & 1]
    negative = [axis - len(shape) if axis % 2 else axis for axis in axes]
    if not axes:
        return

    def total(x):
        return [torch.sum(x.transpose(0, 1), negative, keepdim=keep)]

    graph = traced(total, x)
    trace.by_kernels(graph)
    (found,), (plain,) = graph(x), total(x)
    assert found.shape == plain.shape
    torch.testing.assert_close(found, plain)
    assert (convolution.PRODUCT in targets(graph)) == (0 not in axes)


@pytest.mark.parametrize(
    ("given", "total"),
    [
        (torch.arange(6).reshape(2, 3), lambda x: [torch.sum(x, [1])]),
        (torch.randn(2, 3).double(), lambda x: [torch.sum(x, [1])]),
        (torch.randn(2, 3), lambda x: [torch.sum(x, [1], dtype=torch.float64)]),
        (torch.randn(3, 0, 2), lambda x: [torch.sum(x, [1]), torch.sum(x, [1, 2])]),
        (torch.tensor(2.0), lambda x: [torch.sum(x, [0])]),
    ],
    ids=["whole numbers", "float64", "into float64", "nothing", "one number"],
)
def test_what_else_is_summed_is_left_alone(given, total):
    graph = traced(total, given)
    trace.by_kernels(graph)
    assert convolution.PRODUCT not in targets(graph)
    for ours, plain in zip(graph(given), total(given), strict=True):
        assert torch.equal(ours, plain) and ours.dtype == plain.dtype


class Net(nn.Sequential):
    """What a client of the Ditto paper has, and smaller."""

    def __init__(self):
        first = nn.Conv2d(1, 3, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()
        super().__init__(*first, nn.Linear(27, 5), nn.ReLU(), nn.Linear(5, 4))
        self.sizes = [p.numel() for p in self.parameters()]

    def loss(self, v, x, y):
        pairs = zip(self.named_parameters(), torch.split(v, self.sizes), strict=True)
        given = {name: part.view(p.shape) for (name, p), part in pairs}
        return nn.functional.cross_entropy(functional_call(self, given, (x,)), y)


@pytest.mark.parametrize("pulled", [False, True])
@pytest.mark.parametrize("each", [False, True])
def test_a_step_by_kernels_is_the_plain_one(pulled, each):
    """Products and sums in order, and gradients of dense layers never laid down."""
    net = Net()
    n, d = 4, sum(net.sizes)

    def one(v, w, share, x, y):
        slope = grad(net.loss)(v, x, y)
        slope = share * slope if each else slope
        slope = torch.add(slope, v - w, alpha=0.5) if pulled else slope
        return torch.addcmul(v, slope, torch.tensor(-0.1))

    def step(*given):
        with convolution.Together():
            return vmap(one)(*given)

    v, w, share = torch.randn(n, d), torch.randn(n, d), torch.rand(n, 1)
    x, y = torch.randn(n, 6, 1, 6, 6), torch.randint(4, (n, 6))
    plain = step(v, w, share, x, y)
    graph = traced(lambda *given: [step(*given)], v, w, share, x, y)
    unpooled = ATEN.max_pool2d_with_indices_backward.default
    trace.by_kernels(graph)
    (pool,) = (node for node in graph.graph.nodes if node.target is unpooled)
    assert pool.args[-1].target is not ATEN.clone.default
    trace.update_in_place(graph, in_pieces=True)
    found = targets(graph)
    assert found.count(convolution.ADD_PRODUCT) == 2  # both dense layers
    assert ATEN.bmm.default not in found
    summed = [n.args[0] for n in graph.graph.nodes if n.target is ATEN.sum.dim_IntList]
    assert all(node.meta["val"].dtype == torch.bool for node in summed)  # how many
    (out,) = graph(own := v.clone(), w, share, x, y)
    assert out.data_ptr() == own.data_ptr()
    torch.testing.assert_close(out, plain)


def _read_twice(v, a, b):
    slope = torch.bmm(torch.tanh(a), torch.tanh(b))
    return [torch.addcmul(v, slope.flatten(1), torch.tensor(0.1)), slope * 2]


def _of_several_matrices(v, x):
    def one(v, x):
        slope = grad(lambda v: torch.tanh(torch.bmm(x, v.view(2, 3, 4))).sum())(v)
        return torch.addcmul(v, slope, torch.tensor(-0.1))

    return [vmap(one)(v, torch.tanh(x))]


@pytest.mark.parametrize(
    ("step", "shapes"),
    [
        (_read_twice, [(3, 8), (3, 2, 5), (3, 5, 4)]),
        (_of_several_matrices, [(5, 24), (5, 2, 6, 3)]),
    ],
)
def test_products_that_are_laid_down(step, shapes):
    v, *more = (torch.randn(shape) for shape in shapes)
    graph = traced(step, v, *more)
    trace.by_kernels(graph)
    trace.update_in_place(graph, in_pieces=True)
    assert convolution.ADD_PRODUCT not in targets(graph)
    torch.testing.assert_close(list(graph(v.clone(), *more)), step(v, *more))


class Dense(nn.Sequential):
    """Two dense layers, whose parameters are converted one by one."""

    def __init__(self):
        super().__init__(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
        self.sizes = [p.numel() for p in self.parameters()]

    def step(self, v, x, y):
        def loss(v):
            pairs = zip(
                self.named_parameters(), torch.split(v, self.sizes), strict=True
            )
            given = {n: t.view(p.shape).to(torch.bfloat16) for (n, p), t in pairs}
            out = functional_call(self, given, (x.to(torch.bfloat16),)).float()
            return nn.functional.cross_entropy(out, y)

        return torch.addcmul(v, grad(loss)(v), torch.tensor(-0.1))


def _casts(graph):
    return targets(graph).count(ATEN._to_copy.default)


def test_bfloat16_needs_no_copy_of_weights_and_gradients():
    net, n = Dense(), 3
    given = torch.randn(n, sum(net.sizes)), torch.randn(n, 7, 6)
    given = *given, torch.randint(4, (n, 7))
    step = vmap(net.step)
    graph = traced(lambda *given: [step(*given)], *given)
    before = _casts(graph)
    trace.by_kernels(graph)
    trace.read_in_place(graph)
    assert _casts(graph) == before - 2  # two weights
    trace.update_in_place(graph, in_pieces=True)
    assert _casts(graph) == before - 4  # and their gradients
    assert targets(graph).count(convolution.ADD_PRODUCT) == 2
    v, *rest = given
    (out,) = graph(v.clone(), *rest)
    torch.testing.assert_close(out, step(*given), rtol=0, atol=2e-3)


@pytest.mark.parametrize("pulled", [False, True])
def test_a_first_step_reads_the_model_that_all_share(pulled):
    """What all clients begin with is not copied, and not written over."""
    net, n = Net(), 4

    def one(v, w, x, y):
        slope = grad(net.loss)(v, x, y)
        slope = torch.add(slope, v - w, alpha=0.5) if pulled else slope
        return torch.addcmul(v, slope, torch.tensor(-0.1))

    def step(*given):
        with convolution.Together():
            return vmap(one)(*given)

    d = sum(net.sizes)
    given = torch.randn(n, d), torch.randn(n, d), torch.randn(n, 6, 1, 6, 6)
    given = *given, torch.randint(4, (n, 6))
    graph = traced(lambda *given: [step(*given)], *given)
    trace.by_kernels(graph)
    assert trace.update_in_place(graph, in_pieces=True, apart=True) == [0]
    shared, out = torch.randn(d), torch.full((n, d), torch.nan)
    kept = shared.clone()
    (found,) = graph(shared.expand(n, d), *given[1:], out)
    assert found is out and torch.equal(shared, kept)
    torch.testing.assert_close(out, step(kept.repeat(n, 1), *given[1:]))


def test_a_vector_is_taken_from_all_rows_by_a_kernel():
    def step(v, w, x):
        return [v - w, v - x, w - w, torch.sub(v, w, alpha=2)]

    v, w = torch.randn(3, 5), torch.randn(5)
    graph = traced(step, v, w, x := torch.randn(3, 5))
    trace.subtract_at_once(graph)
    assert targets(graph).count(fused.MINUS) == 1
    for ours, plain in zip(graph(v, w, x), step(v, w, x), strict=True):
        assert torch.equal(ours, plain)


# What is computed once


def _two_models(v, w, x):
    def made(at):
        return ((x.to(torch.float64) / 255 - 0.5) * at).tanh().sum(1)

    return [made(v), made(w), made(v) + made(w)]


def _twice(x):
    return [x * 2, x * 2, (x * 2).view(4), (x * 2).view(4), x * 3.0, x * 3]


def _writes(x):
    a, b = torch.zeros_like(x), torch.zeros_like(x)
    a.add_(x)
    return [a + 3 * b]


def test_two_models_prepare_a_batch_once():
    x = torch.arange(12, dtype=torch.uint8).reshape(3, 4)
    given = torch.randn(3, 4), torch.randn(3, 4), x
    graph = traced(_two_models, *given)
    called = targets(graph)
    assert called.count(ATEN.div.Tensor) == 1 and called.count(ATEN.tanh.default) == 2
    pairs = zip(graph(*given), _two_models(*given), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_outputs_stay_apart():
    """The next step may write over one of them, and must not change the other."""
    x = torch.randn(2, 2)
    found = traced(_twice, x)(x)
    assert len({t.data_ptr() for t in found}) == len(found)
    assert all(torch.equal(a, b) for a, b in zip(found, _twice(x), strict=True))


def test_what_writes_or_draws_is_left_alone():
    x = torch.randn(2, 2)
    for function in (_writes, lambda x: [torch.rand_like(x) - torch.rand_like(x)]):
        assert targets(traced(function, x)) == targets(make_fx(function)(x))
    assert torch.equal(traced(_writes, x)(x)[0], x)


def test_numbers_that_only_look_the_same_stay_apart():
    def near(x):
        return [torch.stack([x / (x * 0.0), x / (x * -0.0)]).sum(1)]

    x = torch.tensor([1.0, 2.0])
    assert traced(near, x)(x)[0].tolist() == [float("inf"), float("-inf")]
