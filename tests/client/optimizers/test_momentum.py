from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.optimizers.momentum import momentum
from troth.client.optimizers.sgd import sgd
from troth.types import Refusal

LR = torch.tensor(0.07, dtype=torch.float64)


def quadratics(n: int = 4, d: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """n problems ½v'Av − b'v in float64, and where each starts."""
    draw = torch.Generator().manual_seed(n)
    root = torch.randn(n, d, d, generator=draw, dtype=torch.float64)
    b, v = torch.randn(2, n, d, generator=draw, dtype=torch.float64)
    return root @ root.mT / d, b, v


def torch_does(a: Tensor, b: Tensor, v: Tensor, beta: float) -> Tensor:
    v = v.clone().requires_grad_()
    optimizer = torch.optim.SGD([v], lr=float(LR), momentum=beta)
    for _ in range(10):
        v.grad = a @ v.detach() - b
        optimizer.step()
    return v.detach()


def test_by_hand() -> None:
    optimizer, lr = momentum(beta=0.5), torch.tensor(0.1)
    v = torch.tensor([1.0])
    v, moments = optimizer.step(v, torch.tensor([4.0]), optimizer.init(v), lr)
    assert v.item() == pytest.approx(0.6)  # m = 4
    v, moments = optimizer.step(v, torch.tensor([1.0]), moments, lr)
    assert v.item() == pytest.approx(0.3)  # m = 2 + 1
    assert moments[0].item() == pytest.approx(3.0)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.99])
def test_as_torch_does(beta: float) -> None:
    optimizer = momentum(beta=beta)
    for a, b, start in zip(*quadratics(), strict=True):
        v, moments = start, optimizer.init(start)
        for _ in range(10):
            v, moments = optimizer.step(v, a @ v - b, moments, LR)
        expected = torch_does(a, b, start, beta)
        torch.testing.assert_close(v, expected, rtol=1e-12, atol=1e-12)


def test_many_rows_as_torch_does_each() -> None:
    optimizer = momentum()
    a, b, start = quadratics()
    step = torch.func.vmap(optimizer.step, in_dims=(0, 0, 0, None))
    v: Tensor = start
    moments: Any = torch.func.vmap(optimizer.init)(start)
    for _ in range(10):
        v, moments = step(v, (a @ v[..., None])[..., 0] - b, moments, LR)
    each = [torch_does(*one, 0.9) for one in zip(a, b, start, strict=True)]
    torch.testing.assert_close(v, torch.stack(each), rtol=1e-12, atol=1e-12)


def test_without_memory_it_is_sgd() -> None:
    v, g, lr = torch.randn(5), torch.randn(5), torch.tensor(0.3)
    optimizer = momentum(beta=0.0)
    moved, moments = optimizer.step(v, g, (torch.randn(5),), lr)
    assert torch.equal(moved, sgd().step(v, g, (), lr)[0])
    assert torch.equal(moments[0], g)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_stable_below_the_limit_and_not_above(beta: float) -> None:
    optimizer = momentum(beta=beta)
    assert optimizer.limit == pytest.approx(2 * (1 + beta))
    for share, stays in ((0.99, True), (1.01, False)):
        v = torch.ones(1, dtype=torch.float64)
        moments = optimizer.init(v)
        for _ in range(5000):
            lr = torch.tensor(share * optimizer.limit, dtype=torch.float64)
            v, moments = optimizer.step(v, v, moments, lr)
            if v.abs() > 1e6:
                break
        assert bool(v.abs() < 1) is stays


@pytest.mark.parametrize("beta", [-0.1, 1.0, 1.5, float("nan"), float("inf")])
def test_refuses_a_beta_outside_its_range(beta: float) -> None:
    with pytest.raises(Refusal, match=rf"beta = {beta} must lie in \[0, 1\)"):
        momentum(beta=beta)


def test_options() -> None:
    assert lookup.check("optimizer", "momentum", {}) == {"beta": 0.9}
