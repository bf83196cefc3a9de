import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import cross_entropy

from troth import lookup
from troth.networks import task as tasks
from troth.networks.layers import Normalize
from troth.networks.models.linear import linear
from troth.networks.models.mlp import mlp
from troth.networks.models.svm import svm
from troth.types import Batch, Refusal, Task

F64 = torch.float64
OPTIONS = {  # smaller than the defaults
    "celeba_cnn": {"channels": 3, "blocks": 2},
    "cnn": {"channels": [3, 5], "widths": [7], "kernel": 3},
    "mlp": {"widths": [6, 5]},
    "resnet18": {"width": 2},
    "vgg13_bn": {"width": 2, "widths": [6]},
}
SHAPES = [(1, 8, 8), (3, 5, 9), (2, 11, 4)]
LARGER = [(1, 32, 32), (3, 32, 40), (2, 33, 32)]  # what is halved often
DEEP = ("resnet18", "vgg13_bn")
NAMES, SLOW = lookup.names("model"), pytest.mark.slow("deep models, lifted")
MODELS = [pytest.param(name, marks=SLOW if name in DEEP else ()) for name in NAMES]
ZERO = torch.tensor(0)


def problem(name, seed, classes, dtype=F64):
    """A model behind its normalization and a batch of bytes, some of weight 0."""
    torch.manual_seed(seed)
    shape = (LARGER if name in DEEP else SHAPES)[seed % len(SHAPES)]
    model = lookup.find("model", name)(shape, classes, **OPTIONS.get(name, {}))
    net = nn.Sequential(Normalize(100.0, 50.0), model)
    for p in net.parameters():  # no start at zero
        p.data.add_(0.1 * torch.randn_like(p))
    return tasks.Objective(net.to(dtype), classes), draw(shape, classes, dtype)


def forms(objective, precision="float32"):
    """Both ways to compute it."""
    return [form(objective, precision) for form in (tasks.functional, tasks.in_place)]


def joined(parts):
    return torch.cat([part.reshape(-1) for part in parts])


def even(x, y):
    """A batch whose examples all count alike."""
    return Batch(x, y, torch.full((len(x),), 1 / len(x), dtype=x.dtype), ZERO, ZERO)


def draw(shape, classes, dtype=F64):
    x = torch.randint(0, 256, (6, *shape), dtype=torch.uint8)
    y = torch.randint(0, classes, (6,)) if classes else torch.randn(6, dtype=dtype)
    weight = torch.rand(6, dtype=dtype) * torch.tensor([1, 1, 0, 1, 0, 1])
    return Batch(x, y, weight / weight.sum(), ZERO, torch.tensor(6))


def kinds(name):
    return [2] if name == "svm" else [2, 5, 0]


def stack(batches):
    return Batch(*(torch.stack(f) for f in zip(*batches, strict=True)))


def assert_close(a, b, atol=1e-12):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert bool(((a - b).abs() <= atol).all())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_three_ways_to_the_same_gradient(name, seed):
    for classes in kinds(name):
        objective, batch = problem(name, seed, classes)
        v = tasks.flatten(objective)
        objective.mode(training=False)
        loss, outputs = objective(batch).detach(), objective.net(batch.x).detach()
        objective.mode(training=True)
        objective.set_batch(batch)
        plain = torch.autograd.grad(objective(batch), list(objective.parameters()))
        moved = joined(
            [v[:0], *(t for t in objective.take_statistics() if t is not None)]
        )
        for task in forms(objective):
            head = task.d - task.tail
            assert (task.d, task.classes) == (len(v), classes)
            assert_close(task.loss(v, batch), loss)
            assert_close(task.grad(v, batch)[:head], joined(plain))
            assert_close(v[head:] - task.grad(v, batch)[head:], moved)
            assert_close(task.predict(v, batch.x), outputs)
        assert torch.equal(tasks.flatten(objective), v)  # left untouched


@pytest.mark.parametrize("name", MODELS)
def test_lifted_is_a_loop(name):
    classes = kinds(name)[0]
    objective, batch = problem(name, 1, classes)
    task, own = forms(objective)
    v = tasks.flatten(objective) + 0.01 * torch.randn(4, task.d, dtype=F64).abs()
    batches = [draw(tuple(batch.x.shape[1:]), classes) for _ in v]
    whole = stack(batches)
    lifted = torch.func.vmap(task.grad)(v, whole)
    outputs = torch.func.vmap(task.predict)(v, whole.x)
    slopes = torch.func.vmap(lambda a, b: task.slope(a, b, spread))(v, whole.x)
    with torch.no_grad():  # as the engine calls them
        for k, b in enumerate(batches):
            size = slopes[k].abs().max()
            for form in (task, own):
                assert_close(lifted[k], form.grad(v[k], b))
                assert_close(outputs[k], form.predict(v[k], b.x))
                assert_close(slopes[k] / size, form.slope(v[k], b.x, spread) / size)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_lifted_can_be_traced(name, precision):
    objective, batch = problem(name, 0, 2, torch.float32)
    task = tasks.functional(objective, precision)
    v, batches = tasks.flatten(objective).repeat(3, 1), stack([batch] * 3)
    step = torch.func.vmap(task.grad)
    traced = make_fx(step)(v, batches)
    assert_close(traced(2 * v, batches), step(2 * v, batches), 1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_is_close_and_comes_back_as_it_went(name):
    objective, batch = problem(name, 0, 2, torch.float32)
    v, exact = tasks.flatten(objective), tasks.functional(objective)
    pure, own = forms(objective, "bfloat16")
    g = exact.grad(v, batch)
    # Normalizing by four rows magnifies the rounding of every layer below.
    far = 0.4 if exact.tail else 0.05
    for task in (pure, own):
        low = task.grad(v, batch)
        assert low.dtype == task.predict(v, batch.x).dtype == torch.float32
        assert 0 < (low - g).norm() < far * g.norm()
        assert torch.allclose(task.loss(v, batch), exact.loss(v, batch), rtol=far)
    assert_close(pure.grad(v, batch), own.grad(v, batch), 0.4 * far * float(g.norm()))
    whole = torch.func.vmap(pure.grad)(v.repeat(2, 1), stack([batch] * 2))
    assert_close(whole[1], pure.grad(v, batch), 0.4 * far * float(g.norm()))


def test_bfloat16_keeps_the_penalty_exact():
    v = torch.tensor([1.001, 0.0, 0.0, 0.0])
    none = even(torch.ones(2, 3), torch.ones(2).long())
    none = none._replace(weight=torch.zeros(2))
    for task in forms(tasks.Objective(svm((3,), 2, l2=1.0), 2), "bfloat16"):
        assert task.grad(v, none)[0] == 2 * v[0]


@pytest.mark.parametrize("name", NAMES)
def test_no_examples_no_gradient_but_the_penalty(name):
    objective, batch = problem(name, 0, 2)
    batch = batch._replace(weight=torch.zeros_like(batch.weight))
    v = tasks.flatten(objective)
    expected = torch.zeros_like(v)
    if name == "svm":
        expected[:-1] = 2 * objective.net[1].l2 * v[:-1]
    for task in forms(objective):
        assert_close(task.grad(v, batch), expected)


class Odd(nn.Module):
    """Frozen, unused and tied parameters, a penalty, and a loss that is no method."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(2))
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x):
        return self.b(torch.relu(self.a(self.frozen(x))))

    def penalty(self):
        return self.a.weight.square().sum()


def test_frozen_unused_and_tied_parameters():
    torch.manual_seed(0)
    objective = tasks.Objective(Odd().double(), 4)
    place = tasks.layout(objective.net)
    assert place.names == ("unused", "a.weight", "a.bias", "b.bias")
    assert place.d == 2 + 16 + 4 + 4
    batch = even(torch.randn(3, 4, dtype=F64), torch.tensor([0, 3, 1]))
    g, own = (task.grad(tasks.flatten(objective), batch) for task in forms(objective))
    assert not g[:2].any() and g[2:].all()
    assert_close(own, g)


def test_flat_and_back():
    net = mlp((3,), 2, widths=[4])
    v = tasks.flatten(net)
    place = tasks.layout(net)
    assert place.d == len(v) == 3 * 4 + 4 + 4 * 2 + 2
    for name, value in tasks.unflatten(place, v).items():
        assert torch.equal(value, net.get_parameter(name))
    other = mlp((3,), 2, widths=[4])
    tasks.assign(other, v)
    assert torch.equal(tasks.flatten(other), v)
    v.zero_()  # a copy, not a view
    assert tasks.flatten(other).any() and tasks.flatten(net).any()


def test_the_gradient_of_a_vector_is_made_once():
    """Trap 4: slices would each make a full-size gradient."""
    objective, batch = problem("mlp", 0, 2)
    v = tasks.flatten(objective)
    graph = make_fx(tasks.functional(objective).grad)(v, batch)
    names = [str(node.target) for node in graph.graph.nodes]
    assert sum("split" in n for n in names) == 1
    assert sum(n.startswith("aten.cat.") for n in names) == 1
    assert not any("slice_backward" in n for n in names)


def test_another_precision_than_the_module():
    objective, batch = problem("cnn", 0, 2, torch.float32)
    v = tasks.flatten(objective).double()
    b = batch._replace(weight=batch.weight.double())
    g = tasks.functional(objective).grad(v, b)
    own = tasks.in_place(objective)
    assert_close(own.grad(v, b), g)
    assert own.grad(v.float(), batch).dtype == torch.float32
    assert_close(own.grad(v, b), g)


def test_in_place_reads_the_row_and_owns_its_gradient():
    objective, batch = problem("linear", 0, 2)
    own = tasks.in_place(objective)
    rows = torch.stack([tasks.flatten(objective)] * 2)
    rows[1] *= 2
    before = rows.clone()
    first = own.grad(rows[0], batch)
    kept = first.clone()
    second = own.grad(rows[1], batch)
    assert second.data_ptr() == first.data_ptr()  # as documented
    assert not torch.equal(second, kept)
    assert torch.equal(rows, before)
    with torch.no_grad():
        assert torch.equal(own.grad(rows[0], batch), kept)


class Mean(nn.Linear):
    def loss(self, outputs, y):
        return cross_entropy(outputs, y)


def test_refusals():
    net = linear((3,), 2)
    with pytest.raises(Refusal, match=r"\[7\] does not fit .* 8 parameters"):
        tasks.assign(net, torch.zeros(7))
    with pytest.raises(Refusal, match="ReLU has 0 trainable"):
        tasks.flatten(nn.ReLU())
    for form in (tasks.functional, tasks.in_place):
        with pytest.raises(Refusal, match="'float16' is not one of"):
            form(tasks.Objective(net, 2), "float16")
    batch = even(torch.ones(4, 3), torch.ones(4).long())
    with pytest.raises(Refusal, match="one value per example"):
        tasks.Objective(Mean(3, 2), 2).check(batch)
    task = Task(1, 0, lambda v, b: v.sum(), lambda v, b: v, lambda v, x: x)
    with pytest.raises(Refusal, match="no gradients of its outputs"):
        task.slope(torch.ones(1), torch.ones(1), spread)


@pytest.mark.parametrize(
    ("outputs", "classes", "y", "words"),
    [
        (2, 3, [0, 1], "2 outputs does not fit 3 classes; it must have 3"),
        (5, 3, [0, 1], "5 outputs does not fit 3 classes; it must have 3"),
        (1, 3, [0, 0], "1 output does not fit 3 classes; it must have 3"),
        (3, 2, [0, 1], "3 outputs does not fit 2 classes; it must have 1 or 2"),
        (2, 0, [0.5, 1.5], "2 outputs does not fit regression; it must have 1"),
        (1, 2, [[0, 1], [1, 1]], "1 output does not fit 2 labels per example; it m"),
        (3, 2, [[0, 1], [1, 1]], "3 outputs does not fit 2 labels per example; it m"),
    ],
)
def test_outputs_that_do_not_fit_the_data(outputs, classes, y, words):
    """Though the labels at hand would not tell: an index error in the tenth round."""
    objective = tasks.Objective(nn.Linear(3, outputs), classes)
    with pytest.raises(Refusal, match=words):
        objective.check(even(torch.ones(2, 3), torch.tensor(y)))


def test_a_module_in_two_places_and_a_tensor_in_two_modules():
    torch.manual_seed(0)
    twice, last = nn.Linear(4, 4), nn.Linear(4, 4)
    last.weight = twice.weight
    net = nn.Sequential(twice, nn.Tanh(), twice, nn.Tanh(), last).double()
    batch = even(torch.randn(3, 4, dtype=F64), torch.tensor([0, 1, 3]))
    loss = cross_entropy(net(batch.x), batch.y)
    plain = torch.autograd.grad(loss, list(net.parameters()))
    objective = tasks.Objective(net, 4)
    for form in (tasks.functional, tasks.in_place, tasks.functional):
        found = form(objective).grad(tasks.flatten(objective), batch)
        assert_close(found, joined(plain))


def test_a_single_row_without_padding():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
    objective = tasks.Objective(net, 2, padded=False)
    batch, v = even(torch.ones(1, 3, dtype=F64), ZERO[None]), tasks.flatten(objective)
    pure, own = (task.grad(v, batch) for task in forms(objective))
    assert pure.isfinite().all()
    assert_close(own, pure)


def spread(outputs):
    """A number made of outputs that no loss is."""
    return (outputs.sin() * torch.arange(1, 7, dtype=F64)[:, None]).sum()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_the_slope_of_outputs(name, seed):
    """Without dropout, by running statistics, and 0 for these."""
    objective, batch = problem(name, seed, kinds(name)[0])
    v = tasks.flatten(objective)
    objective.mode(training=False)
    value = spread(objective.net(batch.x))
    head = joined(torch.autograd.grad(value, list(objective.parameters())))
    expected = torch.cat([head, v.new_zeros(len(v) - len(head))])
    scale = expected.abs().max()
    for task in forms(objective):
        before = task.grad(v, batch).clone()
        for _ in range(2):
            found = task.slope(v, batch.x, spread)
            assert found.abs().max() > 0
            assert_close(found / scale, expected / scale)
            assert torch.equal(task.grad(v, batch), before)  # it trains on as it did
    assert torch.equal(tasks.flatten(objective), v)  # left untouched


def test_slopes_of_dropout_tied_and_unused_parameters():
    torch.manual_seed(0)
    net = nn.Sequential(Odd(), nn.Dropout(0.5), nn.BatchNorm1d(4)).double()
    objective = tasks.Objective(net, 4)
    v, x = tasks.flatten(objective) + 0.1, torch.randn(6, 4, dtype=F64)
    task, own = forms(objective)
    found = task.slope(v, x, spread)
    assert_close(own.slope(v, x, spread), found)
    assert not found[:2].any() and not found[-8:].any()  # unused; statistics
    assert found[2:-8].all()
    for i in torch.randperm(len(v) - 8)[:12].tolist():
        e = torch.zeros_like(v)
        e[i] = 1e-6
        above, below = (spread(task.predict(u, x)) for u in (v + e, v - e))
        assert abs(found[i] - (above - below) / 2e-6) <= 1e-6


def test_slopes_of_a_constant_in_bfloat16_and_kept():
    objective, batch = problem("mlp", 0, 2, torch.float32)
    v, x = tasks.flatten(objective), batch.x
    square = lambda f: f.square().mean()  # noqa: E731
    exact = tasks.functional(objective).slope(v, x, square)
    for form in (tasks.functional, tasks.in_place):
        task = form(objective)
        assert not task.slope(v, x, lambda f: f.new_ones(())).any()
        first = task.slope(v, x, square)
        kept = first.clone()
        task.slope(2 * v, x, square)
        task.grad(v, batch)
        assert torch.equal(first, kept)  # the caller's own
        found = form(objective, "bfloat16").slope(v, x, square)
        assert found.dtype == torch.float32
        assert 0 < (found - exact).norm() < 0.05 * exact.norm()
