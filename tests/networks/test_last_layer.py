"""Rows, noise and curvature against plain autograd and plain linear algebra."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from troth.networks import last_layer
from troth.networks.losses.auto import auto
from troth.types import Data, Refusal, Split

KINDS = ["classes", "single", "several", "soft", "soft single"]
SIZES = [5, 1, 7]  # the second client has too little for a spread


def drawn(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def data(y, seed=0):
    x = drawn(13, 3, seed=seed)
    row = torch.arange(12, -1, -1)  # not in the order of the rows
    size = torch.tensor(SIZES)
    split = Split(row, y[row], torch.cumsum(size, 0) - size, size)
    return Data(x, split, split, split)


def owned(held, found):
    """The places of the clients that were found, with their rows of the data."""
    ends = np.cumsum(SIZES)
    own = [held.train.row[ends[k] - SIZES[k] : ends[k]] for k in found.client]
    return enumerate(own)


def network(outputs, bias):
    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs, bias=bias))
    return body.double()


def labels(kind):
    draw = torch.Generator().manual_seed(2)
    if kind == "several":
        return torch.randint(0, 2, (13, 3), generator=draw), 3
    classes = 2 if "single" in kind else 4
    outputs = 1 if "single" in kind else classes
    if "soft" in kind:
        return torch.rand(13, classes, generator=draw).double().softmax(1), outputs
    return torch.randint(0, classes, (13,), generator=draw), outputs


def slope(net, x, y):
    """Of one example's loss, in the last layer: a row an output, the bias behind."""
    head = list(net[2].parameters())
    found = torch.autograd.grad(auto(net(x[None]), y[None])[0], head)
    return torch.cat([g.reshape(g.shape[0], -1) for g in found], dim=1)


def curvature(net, x, y, bias):
    """The whole H of one example: Λ ⊗ φφᵀ."""
    phi = net[:2](x[None])[0].detach()
    phi = torch.cat([phi, torch.ones(1)]) if bias else phi
    outputs = net(x[None])[0].detach()

    def loss(f):
        return auto(f[None], y[None])[0]

    of_outputs = torch.autograd.functional.hessian(loss, outputs)
    return torch.kron(of_outputs, torch.outer(phi, phi))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_slopes_are_gradients(kind, bias):
    y, outputs = labels(kind)
    held, net = data(y), network(outputs, bias)
    layer = last_layer.last(net, held.x[:2])
    assert (layer.name, layer.width, layer.alone) == ("2", 4 + bias, False)
    found = last_layer.slopes(net, layer, held, np.zeros(3, bool))
    assert found.client.tolist() == [0, 2]
    assert found.sigma2 == (1 / 3 if kind == "several" else 1)
    curved = []
    for place, own in owned(held, found):
        each = torch.stack([slope(net, held.x[i], y[i]).flatten() for i in own])
        np.testing.assert_allclose(found.rows[place], each.mean(0), atol=1e-12)
        noise = each.var(dim=0).sum() / len(own)
        np.testing.assert_allclose(found.noise[place], noise, rtol=1e-9)
        every = [curvature(net, held.x[i], y[i], bias) for i in own]
        pairs = [torch.trace(a @ b) for a, b in itertools.permutations(every, 2)]
        curved.append(float(torch.stack(pairs).mean()))
    assert found.unit == pytest.approx(np.mean(curved), rel=1e-9)


def test_least_squares_is_that_of_numpy():
    y = drawn(13, seed=3)
    held = data(y)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3, 1)).double()
    layer = last_layer.last(net, held.x[:2])
    assert layer.alone and layer.width == 4
    found = last_layer.least_squares(net, layer, held, np.zeros(3, bool))
    assert found.client.tolist() == [0, 2] and found.unit == 4
    left = []
    for place, own in owned(held, found):
        x = np.hstack([held.x[own].numpy(), np.ones((len(own), 1))])
        w, rest, _, _ = np.linalg.lstsq(x, y[own].numpy(), rcond=None)
        np.testing.assert_allclose(found.rows[place], w, atol=1e-9)
        left.append(rest[0])
        loose = np.trace(np.linalg.inv(x.T @ x))
        assert found.noise[place] / found.sigma2 == pytest.approx(loose)
    assert found.sigma2 == pytest.approx(sum(left) / (1 + 3))
    held.x[held.train.row[:5]] = 1.0  # inputs that do not differ
    with pytest.raises(Refusal, match="1 of the benign clients have the 5 training"):
        last_layer.least_squares(net, layer, held, np.zeros(3, bool))


def test_hostile_clients_do_not_say_what_the_noise_is():
    y, x = drawn(13, seed=3), drawn(17, 1, seed=4)
    size = torch.tensor([6, 6, 5])
    y = torch.cat([y, y[:4]])
    split = Split(torch.arange(17), y, torch.cumsum(size, 0) - size, size)
    held = Data(x, split, split, split)
    net = nn.Sequential(nn.Flatten(), nn.Linear(1, 1, bias=False)).double()
    layer, hostile = last_layer.last(net, x[:2]), np.array([False, False, True])
    before = last_layer.least_squares(net, layer, held, hostile)
    split.y[12:] *= 1000
    after = last_layer.least_squares(net, layer, held, hostile)
    assert before.sigma2 == after.sigma2 and len(after.rows) == 3
    np.testing.assert_array_equal(before.rows[:2], after.rows[:2])


def test_saturated_outputs_do_not_overflow():
    y, outputs = labels("classes")
    net, held = network(outputs, bias=True), data(y)
    with torch.no_grad():
        net[2].weight.mul_(1e6)
    layer = last_layer.last(net, held.x[:2])
    found = last_layer.slopes(net, layer, held, np.zeros(3, bool))
    assert np.isfinite(found.rows).all() and np.isfinite(found.unit)
