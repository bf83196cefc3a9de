"""Batch normalization and dropout: against torch's own, padded, lifted and told."""

import copy
import inspect

import pytest
import torch
from torch import nn

from troth import seeding
from troth.networks import batchnorm
from troth.networks import task as tasks
from troth.networks.batchnorm import BatchNorm, Dropout, adapt
from troth.types import Batch

F64 = torch.float64
SHAPES = {nn.BatchNorm1d: (3,), nn.BatchNorm2d: (3, 4, 5), nn.BatchNorm3d: (3, 2, 4, 3)}


def normalized(kind, seed, **options):
    torch.manual_seed(seed)
    norm = kind(3, **options).to(F64)
    for t in (norm.weight, norm.bias, norm.running_mean):
        if t is not None:
            t.data.add_(torch.randn(3, dtype=F64))
    norm.running_var.mul_(torch.rand(3, dtype=F64) + 0.5)
    return norm


def batch_of(x, weight=None, key=0, y=None):
    if weight is None:
        weight = torch.full((len(x),), 1 / len(x), dtype=F64)
    zero, y = torch.tensor(0), torch.zeros(len(x)) if y is None else y
    return Batch(x, y, weight, zero, zero + 1, torch.tensor(key))


def close(a, b):
    return torch.allclose(a, b, atol=1e-12)


def trains(objective, x):
    """The outputs of a step on x, and where the statistics move."""
    objective.mode(training=True)
    objective.set_batch(batch_of(x))
    return objective.net(x), *objective.take_statistics()


OPTIONS = [{"momentum": 0.3}, {"affine": False}, {"eps": 0.5}, {"momentum": 1.0}]
if "bias" in inspect.signature(nn.BatchNorm1d).parameters:  # torch 2.13
    OPTIONS.append({"bias": False})


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("kind", SHAPES)
def test_it_is_torchs_batch_normalization(kind, padded, options):
    for seed in range(3):
        theirs = normalized(kind, seed, **options)
        net = nn.Sequential(copy.deepcopy(theirs))
        objective = tasks.Objective(net, 0, padded=padded)
        x = torch.randn(6, *SHAPES[kind], dtype=F64) * 3 + 1
        out, mean, var = trains(objective, x)
        assert close(out, theirs(x))
        assert torch.allclose(mean, theirs.running_mean, atol=1e-13)
        assert torch.allclose(var, theirs.running_var, atol=1e-13)
        objective.mode(training=False)
        fresh = normalized(kind, seed, **options).eval()  # statistics not written
        assert close(objective.net(x), fresh(x))


@pytest.mark.parametrize("kind", SHAPES)
def test_padding_does_not_count(kind):
    net = nn.Sequential(normalized(kind, 0), nn.Flatten(), nn.LazyLinear(1)).to(F64)
    x, y = torch.randn(5, *SHAPES[kind], dtype=F64), torch.randn(5, dtype=F64)
    net(x)
    objective = tasks.Objective(net, 0)
    v, short = tasks.flatten(objective), batch_of(x, y=y)
    more, none = torch.full((3, *SHAPES[kind]), 1e6), torch.zeros(3, dtype=F64)
    pairs = [(x, more), (short.weight, none), (y, none)]
    x, weight, y = (torch.cat(pair) for pair in pairs)
    for task in (tasks.functional(objective), tasks.in_place(objective)):
        expected = task.grad(v, short).clone()
        found = task.grad(v, batch_of(x, weight, y=y))
        assert torch.allclose(found, expected, atol=1e-10)


def test_a_client_without_examples_keeps_its_statistics():
    net = nn.Sequential(normalized(nn.BatchNorm1d, 0), nn.Linear(3, 1).to(F64))
    objective = tasks.Objective(net, 0)
    nobody = batch_of(torch.randn(4, 3, dtype=F64), torch.zeros(4, dtype=F64))
    task = tasks.functional(objective)
    assert not task.grad(tasks.flatten(objective), nobody).any()


def test_a_single_row_has_no_spread():
    norm, x = normalized(nn.BatchNorm1d, 0), torch.randn(1, 3, dtype=F64)
    out, mean, var = trains(tasks.Objective(nn.Sequential(norm), 0), x)
    assert torch.allclose(out[0], norm.bias.data)
    assert torch.allclose(mean, 0.9 * norm.running_mean + 0.1 * x[0])
    assert torch.equal(var, norm.running_var)


def test_a_step_takes_the_tail_where_torch_takes_it():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)).to(F64)
    theirs = copy.deepcopy(net)
    objective = tasks.Objective(net, 2)
    task, v = tasks.functional(objective), tasks.flatten(objective)
    assert (task.d, task.tail) == (4 * 3 + 3 + 6 + 8 + 6, 6)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    rate = torch.tensor([0.1] * 29 + [1.0] * 6, dtype=F64)
    for _ in range(5):
        x, y = torch.randn(8, 4, dtype=F64), torch.randint(0, 2, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(theirs(x), y).backward()
        optimizer.step()
        v = v - rate * task.grad(v, batch_of(x, y=y))
    tasks.assign(objective.net, v)
    for name, value in theirs.state_dict().items():
        if not name.endswith("tracked"):
            assert close(objective.net.state_dict()[name], value)
    x = torch.randn(8, 4, dtype=F64)
    assert close(task.predict(v, x), theirs.eval()(x))


def test_frozen_statistics_stay_and_are_used():
    norm = normalized(nn.BatchNorm1d, 0)
    norm.frozen_statistics = True
    objective = tasks.Objective(nn.Sequential(norm, nn.Linear(3, 1).to(F64)), 0)
    task, x, seen = tasks.functional(objective), torch.randn(4, 3, dtype=F64), []
    assert task.tail == 0
    objective.net[0].register_forward_hook(lambda m, i, o: seen.append(o.detach()))
    task.grad(tasks.flatten(objective), batch_of(x))
    assert torch.allclose(seen[0], norm.eval()(x))


def test_a_layer_used_twice_moves_twice_and_one_unused_stays():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (normalized(nn.BatchNorm1d, seed) for seed in (0, 1))
            self.out = nn.Linear(3, 1).to(F64)

        def forward(self, x):
            return self.out(self.a(self.a(x)))

    theirs = Twice()
    objective = tasks.Objective(copy.deepcopy(theirs), 0)
    v, x = tasks.flatten(objective), torch.randn(6, 3, dtype=F64)
    g = tasks.functional(objective).grad(v, batch_of(x))
    theirs(x)
    means, variances = (v - g)[-12:].chunk(2)
    assert torch.allclose(means[:3], theirs.a.running_mean)
    assert torch.allclose(variances[:3], theirs.a.running_var)
    assert torch.equal(means[3:], theirs.b.running_mean)


def test_adapting_keeps_names_tensors_and_what_is_shared():
    norm = nn.BatchNorm2d(3)
    net = nn.Sequential(norm, nn.Sequential(norm, nn.Dropout2d(0.3)), nn.ReLU())
    before = dict(net.state_dict(keep_vars=True))
    adapted = adapt(net)
    after = dict(adapted.state_dict(keep_vars=True))
    assert list(before) == list(after)
    assert all(before[name] is after[name] for name in before)
    assert adapted[0] is adapted[1][0] and isinstance(adapted[0], BatchNorm)
    assert isinstance(adapt(nn.BatchNorm1d(2)), BatchNorm)
    assert adapt(adapted) is adapted and len(batchnorm.norms(adapted)) == 1


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Dropout(0.3), (50, 40, 30)),
        (nn.Dropout1d(0.3), (100, 600, 2)),
        (nn.Dropout2d(0.3), (100, 600, 2, 2)),
        (nn.Dropout3d(0.3), (100, 600, 2, 2, 2)),
    ],
)
def test_dropout_drops_its_share(layer, shape):
    drop, x = Dropout(layer, 0).train(), torch.ones(shape)
    drop.key = seeding.keys(0, "test", 0, torch.tensor(3))
    out = drop(x)
    gone = (out == 0).double()
    assert torch.equal(out.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert not torch.equal(out, drop(x))  # used once more
    drop.calls = 0
    assert torch.equal(out, drop(x))  # the key decides
    each = 60_000  # six standard deviations: fails once in 10⁹
    assert abs(float(gone.mean()) - 0.3) < 6 * (0.21 / each) ** 0.5
    if not isinstance(layer, nn.Dropout):
        whole = gone.flatten(2)
        assert torch.equal(whole.amin(2), whole.amax(2))
    assert torch.equal(drop.eval()(x), x)


def test_draws_are_of_the_client_the_step_and_the_layer():
    net = nn.Sequential(nn.Dropout(0.5), nn.Identity(), nn.Dropout(0.5))
    objective = tasks.Objective(nn.Sequential(net, nn.Linear(64, 1)), 0)
    (first, second), x, seen = objective.drops, torch.ones(8, 64), {}
    for key, t in [(1, 0), (2, 0), (1, 1), (1, 0)]:
        objective.mode(training=True)
        objective.set_batch(batch_of(x, key=key)._replace(t=torch.tensor(t)))
        a, b = first(x), second(x)
        assert not torch.equal(a, b)
        assert torch.equal(a, seen.setdefault((key, t), a))
    assert len({tuple(a.flatten().tolist()) for a in seen.values()}) == 3
    for p in (0.0, 1.0):  # all or nothing
        drop = Dropout(nn.Dropout(p), 0).train()
        drop.key = torch.tensor(5)
        assert torch.equal(drop(x), x * (1 - p))


@pytest.mark.parametrize("axes", range(2, 6))
@pytest.mark.parametrize("kind", SHAPES)
def test_inputs_that_torch_would_not_take(kind, axes):
    """Else the trained model would not run as an ordinary module."""
    x, theirs = torch.randn(4, 3, *[2] * (axes - 2), dtype=F64), normalized(kind, 0)
    ours = adapt(copy.deepcopy(theirs))
    try:
        theirs(x)
    except ValueError:
        with pytest.raises(ValueError, match=f"axes got {axes}"):
            ours(x)
    else:
        assert ours(x).shape == x.shape


@pytest.mark.parametrize("padded", [True, False])
def test_lifted_in_bfloat16_it_keeps_the_types(padded):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 3, 2), nn.BatchNorm1d(3), nn.Conv1d(3, 2, 2))
    objective = tasks.Objective(nn.Sequential(net, nn.Flatten(), nn.Linear(4, 2)), 2)
    objective.padded = padded
    task, v = tasks.functional(objective, "bfloat16"), tasks.flatten(objective)
    x, y = torch.randn(3, 5, 1, 4), torch.randint(0, 2, (3, 5))
    weight, zero = torch.full((3, 5), 0.2), torch.zeros(3, dtype=torch.long)
    batch = Batch(x, y, weight, zero, zero + 1, zero, zero)
    found = torch.func.vmap(task.grad)(v.expand(3, -1), batch)
    for k in range(3):
        one = task.grad(v, Batch(*(f[k] for f in batch)))
        assert one.dtype == found.dtype == torch.float32
        assert torch.allclose(found[k], one, atol=0.02)


class Halved(nn.Module):
    def forward(self, x):
        return x / 2 if self.training else x


def test_who_else_uses_the_network_does_not_matter():
    """Two tasks in bfloat16 share one, and each must find it in its own mode."""
    objective = tasks.Objective(nn.Sequential(Halved(), nn.Linear(3, 1)), 0)
    one, two = (tasks.functional(objective, "bfloat16") for _ in range(2))
    v, x = tasks.flatten(objective), torch.randn(4, 3)
    batch = batch_of(x, torch.full((4,), 0.25))
    g, out = one.grad(v, batch), one.predict(v, x)
    for task in (two, one, two, one):
        assert torch.equal(task.grad(v, batch), g)
        assert torch.equal(task.predict(v, x), out)


def test_a_layer_that_its_owner_keeps_from_training_stays():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.out = normalized(nn.BatchNorm1d, 0), nn.Linear(3, 1).to(F64)

        def train(self, mode=True):
            super().train(mode)
            self.norm.eval()
            return self

        def forward(self, x):
            return self.out(self.norm(x))

    theirs = Kept().train()
    objective = tasks.Objective(copy.deepcopy(theirs), 0)
    x, y = torch.randn(5, 3, dtype=F64), torch.randn(5, dtype=F64)
    loss = (0.5 * (theirs(x)[:, 0] - y).square()).mean()
    plain = torch.autograd.grad(loss, list(theirs.parameters()))
    expected = torch.cat([part.reshape(-1) for part in plain])
    for task in (tasks.functional(objective), tasks.in_place(objective)):
        g = task.grad(tasks.flatten(objective), batch_of(x, y=y))
        assert close(g[: -task.tail], expected)
        assert task.tail == 6 and not g[-6:].any()
