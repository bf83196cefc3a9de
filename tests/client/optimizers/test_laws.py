"""What holds of every optimizer in the folder, and that torch does the same."""

import math

import pytest
import torch

from troth import lookup
from troth.types import Optimizer, Refusal

from ..hand import F64, INF, NAN, drawn

LR = torch.tensor(0.07, dtype=F64)
SGD, ADAM = torch.optim.SGD, torch.optim.Adam
ADAMS = [(0.9, 0.999, 1e-8), (0.0, 0.9, 1e-3), (0.5, 0.0, 0.1), (0.0, 0.0, 1.0)]
TORCH = [("sgd", {}, SGD, {})]
TORCH += [
    ("momentum", {"beta": b}, SGD, {"momentum": b}) for b in (0.0, 0.5, 0.9, 0.99)
]
TORCH += [
    ("adam", {"beta1": a, "beta2": b, "eps": e}, ADAM, {"betas": (a, b), "eps": e})
    for a, b, e in ADAMS
]


def test_all_are_compared():
    assert {name for name, *_ in TORCH} == {*lookup.names("optimizer")}


def made(name, options):
    given = lookup.check("optimizer", name, options)
    one = lookup.call(lookup.find("optimizer", name), given)
    assert isinstance(one, Optimizer)
    return one


@pytest.mark.parametrize(("name", "options", "theirs", "more"), TORCH)
def test_as_torch_does_one_by_one_and_together(name, options, theirs, more):
    """On four problems ½v'Av − b'v."""
    root, (b, start) = drawn(4, 6, 6, seed=4), drawn(2, 4, 6, seed=5)
    a, optimizer, ends = root @ root.mT / 6, made(name, options), []
    for k in range(4):
        v = start[k]
        moments = optimizer.init(v)
        expected = start[k].clone().requires_grad_()
        step = theirs([expected], lr=float(LR), **more)
        for _ in range(10):
            v, moments = optimizer.step(v, a[k] @ v - b[k], moments, LR)
            expected.grad = a[k] @ expected.detach() - b[k]
            step.step()
        ends.append(expected.detach())
        torch.testing.assert_close(v, ends[-1], rtol=1e-12, atol=1e-12)
    lifted = torch.func.vmap(optimizer.step, in_dims=(0, 0, 0, None))
    rows, all_moments = start, torch.func.vmap(optimizer.init)(start)
    for _ in range(10):
        g = (a @ rows[..., None])[..., 0] - b
        rows, all_moments = lifted(rows, g, all_moments, LR)
    torch.testing.assert_close(rows, torch.stack(ends), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", lookup.names("optimizer"))
def test_touches_nothing_and_moves_nothing_without_a_rate(name):
    (v, g), one = drawn(2, 3), made(name, {})
    moments = one.init(v)
    read = [v, g, *moments]
    kept = [t.clone() for t in read]
    moved, _ = one.step(v, g, moments, torch.tensor(0.0))
    assert torch.equal(moved, v) and all(map(torch.equal, read, kept))


@pytest.mark.parametrize("beta", [None, 0.0, 0.5, 0.9])
def test_stable_below_the_limit_and_not_above(beta):
    one = made("sgd", {}) if beta is None else made("momentum", {"beta": beta})
    assert one.limit == pytest.approx(2 * (1 + (beta or 0)))
    assert made("adam", {}).limit == math.inf
    for share, stays in ((0.99, True), (1.01, False)):
        v, lr = torch.ones(1, dtype=F64), torch.tensor(share * one.limit, dtype=F64)
        moments = one.init(v)
        for _ in range(5000):
            v, moments = one.step(v, v, moments, lr)
            if v.abs() > 1e6:
                break
        assert bool(v.abs() < 1) is stays


@pytest.mark.parametrize(
    ("name", "option", "values", "words"),
    [
        ("momentum", "beta", [-0.1, 1.0, 1.5, NAN, INF], r" must lie in \[0, 1\)"),
        ("adam", "beta1", [-0.1, 1.0, NAN], r"\b.*must"),
        ("adam", "beta2", [-0.1, 1.0, NAN], r"\b.*must"),
        ("adam", "eps", [0.0, -1e-8, NAN], r"\b.*must"),
    ],
)
def test_refuses(name, option, values, words):
    for x in values:
        with pytest.raises(Refusal, match=f"{option} = {x}{words}"):
            made(name, {option: x})
