import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import conv2d

from troth.networks import convolution, kernels
from troth.networks.convolution import Apart, Together

F64 = torch.float64
KERNELS = [(1, 1), (3, 3), (5, 5), (1, 3), (4, 2)]
PADDINGS = [(0, 0), (1, 1), (2, 0), (3, 4)]  # the last exceeds most kernels


def draw(*shape):
    return torch.randn(*shape, dtype=F64)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(params=["windows laid out", "where they lie"])
def way(request, monkeypatch):
    """Both ways to compute them; the second goes by plain code on a CPU."""
    if request.param == "windows laid out":
        return convolution._Convolve
    monkeypatch.setattr(kernels, "ready", lambda x: True)
    monkeypatch.setattr(convolution, "_many_channels", lambda x, w: True)
    return convolution._Direct


@pytest.fixture
def replaced(way, monkeypatch):
    """One entry for every convolution that is computed as a product."""
    calls = []
    real = way.apply

    def apply(*args):
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(way, "apply", apply)
    return calls


def near(a, b, atol=1e-12):
    """Two tensors, or several pairs of them."""
    if isinstance(a, tuple | list):
        return all(near(x, y, atol) for x, y in zip(a, b, strict=True))
    return a.shape == b.shape and bool((a - b).abs().max() <= atol)


def both(function, *arguments):
    plain = function(*arguments)
    with Together():
        return plain, function(*arguments)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_forward_and_gradients_are_those_of_torch(replaced, kernel, padding, bias):
    given = [draw(2, 3, 7, 6), draw(4, 3, *kernel), *[draw(4)] * bias]

    def outputs(x, w, b=None):
        return conv2d(x, w, b, (1, 1), padding, (1, 1), 1)

    g = torch.randn_like(outputs(*given))
    replaced.clear()

    def everything(*given):
        moving = [t.clone().requires_grad_() for t in given]
        out = outputs(*moving)
        return [out.detach(), *torch.autograd.grad(out, moving, g)]

    plain, product = both(everything, *given)
    assert len(replaced) == 1 and len(plain) == 3 + bias and near(plain, product)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("which", [0, 1])
def test_gradient_of_one_of_the_two_only(which):
    def gradient(*given):
        moving = [t.clone() for t in given]
        moving[which].requires_grad_()
        out = conv2d(*moving, None, (1, 1), (1, 1))
        return torch.autograd.grad(out.sin().sum(), moving[which])[0]

    assert near(*both(gradient, draw(2, 3, 6, 5), draw(4, 3, 3, 3)))


def loss(w, x):
    h = torch.relu(conv2d(x, w[0], w[1], (1, 1), (2, 2)))
    return conv2d(h, w[2], None, (1, 1), (0, 1)).square().mean()


def weights(*clients):
    return draw(*clients, 3, 2, 5, 5), draw(*clients, 3), draw(*clients, 2, 3, 3, 1)


@pytest.mark.parametrize("shared", [None, "x", "w"])
def test_under_vmap_of_grad(shared, replaced):
    x = draw(2, 2, 6, 6) if shared == "x" else draw(3, 2, 2, 6, 6)
    w = weights() if shared == "w" else weights(3)
    dims = (None if shared == "w" else 0, None if shared == "x" else 0)
    plain, product = both(torch.func.vmap(torch.func.grad(loss), dims), w, x)
    assert len(replaced) == 2 and near(plain, product)
    for k in range(3):  # and a client alone
        own = w if shared == "w" else tuple(t[k] for t in w)
        alone = torch.func.grad(loss)(own, x if shared == "x" else x[k])
        assert near([part[k] for part in product], alone)


def test_one_model_that_stands_still_is_left_to_torch(replaced):
    """All clients' inputs, as one batch: climbing on a shared model."""
    w, x = weights(), draw(3, 2, 2, 6, 6)
    inside = lambda at: loss(tuple(t.clone() for t in w), at)  # noqa: E731
    for found in (lambda at: loss(w, at), inside):  # made on the way, too
        climb = torch.func.vmap(torch.func.grad(found))
        plain, same = both(climb, x)
        assert replaced == [] and near(plain, same)
    each = torch.stack([torch.func.grad(lambda at: loss(w, at))(one) for one in x])
    assert near(each, same)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradient_in_the_pictures_of_a_model_that_stands_still(
    kernel, padding, channels, monkeypatch
):
    turned, real = [], convolution._Turned.apply
    seen = lambda *args: (turned.append(args), real(*args))[1]  # noqa: E731
    monkeypatch.setattr(convolution._Turned, "apply", seen)
    w, b, x = draw(3, channels, *kernel), draw(3), draw(4, 2, channels, 7, 6)

    def loss(at):  # of a model that is made on the way
        out = conv2d(at, w.clone(), b, (1, 1), padding)
        return out.sin().sum(), out

    climb = torch.func.grad(loss, has_aux=True)
    lifted = torch.func.vmap(lambda x: climb(x))
    plain = lifted(x)
    with Apart():
        found, traced = lifted(x), make_fx(lambda x: lifted(x))(x)(x)
        alone = list(zip(*(climb(one) for one in x), strict=True))
    fits = all(p < k for p, k in zip(padding, kernel, strict=True))
    assert bool(turned) == (channels == 1 and fits)
    assert near(plain, found) and near(plain, traced)
    assert near(plain, [torch.stack(parts) for parts in alone])


def test_a_model_that_moves_is_left_to_torch():
    """Its own gradient is asked for: one that is lost would stand still as well."""
    w, x = draw(3, 1, 3, 3), draw(2, 1, 6, 6)

    def loss(w, x):
        return conv2d(x, w, None, (1, 1), (1, 1)).sin().sum()

    both_ways = torch.func.grad(loss, argnums=(0, 1))
    plain = both_ways(w, x)
    with Apart():
        found, moving = both_ways(w, x), w.clone().requires_grad_()
        own = torch.autograd.grad(loss(moving, x), moving)[0]
    assert near(plain, found) and near(plain[0], own)


@pytest.mark.parametrize("clients", [1, 4])
def test_under_make_fx(clients, way):
    step = torch.func.vmap(torch.func.grad(loss))
    with Together():
        traced = make_fx(step)(weights(clients), draw(clients, 2, 2, 6, 6))
    targets, ours = [n.target for n in traced.graph.nodes], torch.ops.troth
    expected = ours.product if way is convolution._Convolve else ours.weigh
    assert expected.default in targets
    assert not any("convolution" in str(target) for target in targets)
    again, y = weights(clients), draw(clients, 2, 2, 6, 6)
    assert near(traced(again, y), step(again, y))


def test_in_a_module_by_functional_call():
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 1, 5))
    net.to(F64)
    for x in (draw(3, 2, 8, 8), draw(2, 8, 8)):  # with a batch, and without
        assert near(*both(lambda x=x: net(x).detach()))
        assert near(*both(lambda x=x: functional_call(net, {}, (x,)).detach()))


def test_others_are_left_alone(replaced):
    x = draw(2, 4, 9, 9)
    assert torch.equal(*both(torch.conv3d, x[None], draw(3, 2, 1, 3, 3)))
    both_given = draw(2, 3, 5, 5), draw(3, 2, 3, 3)
    assert torch.equal(*both(torch.conv_transpose2d, *both_given))
    assert replaced == []
    for mode in ("reflect", "circular"):  # padded by the module, then plain
        conv = nn.Conv2d(4, 3, 3, padding=1, padding_mode=mode).to(F64)
        assert near(*both(lambda conv=conv: conv(x).detach()))
    assert len(replaced) == 2


PADS = st.sampled_from(["valid", "same"]) | st.integers(0, 3)


@st.composite
def shapes(draw):
    """Any convolution in one or two dimensions, and inputs that it accepts."""
    axes = draw(st.integers(1, 2))
    few = st.tuples(*[st.integers(1, 4)] * axes)
    kernel, rest, padding = draw(few), draw(few), draw(PADS)
    stride = (1,) * axes if padding == "same" else draw(few)
    dilation = draw(st.tuples(*[st.integers(1, 2)] * axes))
    groups = draw(st.integers(1, 3))
    channels = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    size = [d * (k - 1) + r for d, k, r in zip(dilation, kernel, rest, strict=True)]
    kind = (nn.Conv1d, nn.Conv2d)[axes - 1]
    return kind, (*channels, kernel, stride, padding, dilation, groups), size


@pytest.mark.filterwarnings("ignore:Using padding")
@settings(max_examples=60, deadline=None)
@given(shapes())
def test_any_convolution_of_many_clients_is_that_of_each(shape):
    kind, options, size = shape
    conv = kind(*options).to(F64)
    x = draw(3, 2, options[0], *size)
    w = {name: draw(3, *p.shape) for name, p in conv.named_parameters()}

    def loss(w, x):
        return functional_call(conv, w, (x,)).sin().sum()

    slope, taken = torch.func.grad(loss, argnums=(0, 1)), []
    real = convolution._Convolve.apply
    with pytest.MonkeyPatch.context() as patch, Together():
        seen = lambda *a: taken.append(a) or real(*a)  # noqa: E731
        patch.setattr(convolution._Convolve, "apply", seen)
        ours = torch.func.vmap(slope)(w, x)
    depthwise = options[-1] > 1 and conv.weight.shape[1] == 1
    assert len(taken) == (not depthwise)
    for k in range(3):
        plain = slope({name: t[k] for name, t in w.items()}, x[k])
        assert near(ours[1][k], plain[1], 1e-10)
        assert all(near(ours[0][name][k], plain[0][name], 1e-10) for name in w)


def test_every_way_to_call_it():
    x, w, b = draw(2, 3, 6, 6), draw(4, 3, 3, 3), draw(4)
    calls = [(), (None,), (None, 1), (None, 1, 1), (None, (1, 1), 1)]
    calls += [(None, 1, (1, 1)), (None, [1, 1], [1, 1]), (None, (1,), (1,))]
    calls += [(None, 1, 1, 1, 1), (None, 2, 1, 1, 1), (None, 1, 1, 2)]
    calls += [(None, (1, 1), "valid")]
    assert [rest for rest in calls if not near(*both(conv2d, x, w, *rest))] == []
    assert near(*both(lambda: conv2d(x, w, bias=b, padding=1)))
    assert near(*both(lambda: conv2d(input=x, weight=w, bias=b, stride=2)))


@pytest.mark.usefixtures("way")
@pytest.mark.filterwarnings("ignore")  # a warning is not enough
def test_second_derivatives_are_right_or_refused():
    """Zeros in silence would turn a method that needs them into another one."""

    def twice(w, x):
        def norm(w):
            found = torch.func.grad(loss)(w, x)
            return sum((g.square().sum() for g in found), torch.zeros((), dtype=F64))

        return torch.func.grad(norm)(w)

    w, x = weights(), draw(2, 2, 6, 6)
    plain = twice(w, x)
    try:
        with Together():
            product = twice(w, x)
    except (RuntimeError, NotImplementedError):
        return
    for a, b in zip(plain, product, strict=True):
        assert near(a, b, 1e-9 * float(a.abs().max()))


def test_float32_and_bfloat16():
    """And the TF32 setting is left as it was."""
    before = torch.backends.cuda.matmul.allow_tf32
    x, w = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3)
    for dtype, atol in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        given = x.to(dtype), w.to(dtype), None, (1, 1), (1, 1)
        plain, product = both(conv2d, *given)
        assert product.dtype == dtype
        assert near(plain.float(), product.float(), atol)
    assert torch.backends.cuda.matmul.allow_tf32 == before


@pytest.mark.parametrize("how", [(1, 1), (2, 1), (2, 0, 1, 2), (1, 2, 2)])
@pytest.mark.parametrize("bias", [True, False])
def test_in_another_order_it_is_the_same(how, bias):
    """One client's on CUDA, which goes channels-last, here on whatever there is."""
    groups = how[3] if len(how) > 3 else 1
    x = draw(2, 4, 9, 8).requires_grad_()
    w = draw(6, 4 // groups, 3, 3).requires_grad_()
    b = draw(6) if bias else None
    ours, plain = convolution._ordered(x, w, b, *how), conv2d(x, w, b, *how)
    assert near(ours, plain)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    g = torch.randn_like(plain)
    assert near(*(torch.autograd.grad(o, (x, w), g) for o in (ours, plain)))
    assert convolution._ordered(x[0], w, b, *how) is None  # a single picture


def test_whether_a_tensor_stands_for_many():
    seen = []

    def look(x):
        seen.append(convolution.is_lifted(x))
        return x.sum()

    x = draw(3, 2)
    look(x), torch.func.grad(look)(x), torch.func.vmap(look)(x)
    torch.func.vmap(torch.func.grad(look))(x)
    torch.func.grad(lambda v: torch.func.vmap(look)(v).sum())(x)
    assert seen == [False, False, True, True, True]
