"""L-BFGS as steps that can be lifted."""

import pytest
import torch
from torch.func import grad, vmap

from troth.client.personalizers import _lbfgs

from ..hand import F64, drawn


def solved(value, start, steps):
    carry = _lbfgs.begin(start)
    for _ in range(steps):
        carry = _lbfgs.step(carry, value, grad(value))
    return carry[0]


@pytest.mark.parametrize("d", [1, 2, 7, 30])
def test_quadratics_to_the_last_digits(d):
    root, b = drawn(d, d, seed=d), drawn(d)
    a = root @ root.T + 0.1 * torch.eye(d, dtype=F64)
    found = solved(lambda v: v @ a @ v / 2 - b @ v, torch.zeros(d, dtype=F64), 200)
    assert (found - torch.linalg.solve(a, b)).abs().max() <= 1e-7


def test_a_logistic_loss_to_a_gradient_of_nothing():
    x, y = drawn(50, 4), drawn(50, seed=2).sign()

    def value(v):
        return torch.nn.functional.softplus(-y * (x @ v)).sum() + 0.05 * v @ v

    found = solved(value, torch.full((4,), 3.0, dtype=F64), 40)
    assert grad(value)(found).norm() <= 1e-7


def test_never_up():
    """Rosenbrock's valley, which is not convex: every step goes down or stays."""

    def value(v):
        return (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2

    carry = _lbfgs.begin(torch.tensor([-1.2, 1.0], dtype=F64))
    last = float(value(carry[0]))
    for _ in range(150):
        carry = _lbfgs.step(carry, value, grad(value))
        assert float(value(carry[0])) <= last * (1 + 1e-10) + 1e-300
        last = float(value(carry[0]))
    assert last <= 1e-6


def test_lifted_over_problems():
    draw = torch.Generator().manual_seed(1)
    a = torch.rand(5, 3, generator=draw, dtype=F64) + 0.2
    b = torch.randn(5, 3, generator=draw, dtype=F64)

    def one(a, b):
        return solved(lambda v: (a * (v - b) ** 2).sum(), torch.zeros(3, dtype=F64), 9)

    together = vmap(one)(a, b)
    apart = torch.stack([one(p, q) for p, q in zip(a, b, strict=True)])
    assert (together - apart).abs().max() <= 1e-12
    assert (together - b).abs().max() <= 1e-8
