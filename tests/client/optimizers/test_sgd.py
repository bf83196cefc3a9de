from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.optimizers.sgd import sgd
from troth.types import Refusal

LR = torch.tensor(0.07, dtype=torch.float64)


def quadratics(n: int = 4, d: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """n problems ½v'Av − b'v in float64, and where each starts."""
    draw = torch.Generator().manual_seed(n)
    root = torch.randn(n, d, d, generator=draw, dtype=torch.float64)
    b, v = torch.randn(2, n, d, generator=draw, dtype=torch.float64)
    return root @ root.mT / d, b, v


def torch_does(a: Tensor, b: Tensor, v: Tensor, steps: int = 10) -> Tensor:
    v = v.clone().requires_grad_()
    optimizer = torch.optim.SGD([v], lr=float(LR))
    for _ in range(steps):
        v.grad = a @ v.detach() - b
        optimizer.step()
    return v.detach()


def test_by_hand() -> None:
    v, g = torch.tensor([1.0, 2.0]), torch.tensor([10.0, -4.0])
    moved, moments = sgd().step(v, g, (), torch.tensor(0.5))
    assert moved.tolist() == [-4.0, 4.0]
    assert moments == ()
    assert v.tolist() == [1.0, 2.0]  # untouched


def test_as_torch_does() -> None:
    for a, b, start in zip(*quadratics(), strict=True):
        v, moments = start, sgd().init(start)
        for _ in range(10):
            v, moments = sgd().step(v, a @ v - b, moments, LR)
        torch.testing.assert_close(v, torch_does(a, b, start), rtol=1e-12, atol=1e-12)


def test_many_rows_as_torch_does_each() -> None:
    a, b, start = quadratics()
    step = torch.func.vmap(sgd().step, in_dims=(0, 0, 0, None))
    v: Tensor = start
    moments: Any = torch.func.vmap(sgd().init)(start)
    for _ in range(10):
        v, moments = step(v, (a @ v[..., None])[..., 0] - b, moments, LR)
    each = [torch_does(*one) for one in zip(a, b, start, strict=True)]
    torch.testing.assert_close(v, torch.stack(each), rtol=1e-12, atol=1e-12)


def test_stable_below_the_limit_and_not_above() -> None:
    assert sgd().limit == 2.0
    for share, stays in ((0.99, True), (1.01, False)):
        v = torch.ones(1, dtype=torch.float64)
        for _ in range(2000):
            v, _ = sgd().step(v, v, (), torch.tensor(share * sgd().limit))
        assert bool(v.abs() < 1) is stays


def test_no_learning_rate_no_step() -> None:
    v = torch.randn(3)
    moved, _ = sgd().step(v, torch.randn(3), (), torch.tensor(0.0))
    assert torch.equal(moved, v)


def test_has_no_options() -> None:
    assert lookup.check("optimizer", "sgd", {}) == {}
    with pytest.raises(Refusal, match="'sgd' has no option 'beta'; it has none"):
        lookup.check("optimizer", "sgd", {"beta": 0.9})
