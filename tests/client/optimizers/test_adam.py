from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.optimizers.adam import adam
from troth.types import Refusal

LR = torch.tensor(0.07, dtype=torch.float64)
SETTINGS = [(0.9, 0.999, 1e-8), (0.0, 0.9, 1e-3), (0.5, 0.0, 0.1), (0.0, 0.0, 1.0)]


def quadratics(n: int = 4, d: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """n problems ½v'Av − b'v in float64, and where each starts."""
    draw = torch.Generator().manual_seed(n)
    root = torch.randn(n, d, d, generator=draw, dtype=torch.float64)
    b, v = torch.randn(2, n, d, generator=draw, dtype=torch.float64)
    return root @ root.mT / d, b, v


def torch_does(
    a: Tensor, b: Tensor, v: Tensor, beta1: float, beta2: float, eps: float
) -> Tensor:
    v = v.clone().requires_grad_()
    optimizer = torch.optim.Adam([v], lr=float(LR), betas=(beta1, beta2), eps=eps)
    for _ in range(10):
        v.grad = a @ v.detach() - b
        optimizer.step()
    return v.detach()


def test_the_first_step_is_the_sign_of_the_gradient() -> None:
    v = torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64)
    g = torch.tensor([5.0, -0.001, 0.0], dtype=torch.float64)
    moved, _ = adam().step(v, g, adam().init(v), torch.tensor(0.1))
    assert moved.tolist() == pytest.approx([0.9, 1.1, 1.0], abs=1e-5)


def test_by_hand() -> None:
    # g = 2 then 0: m = 0.2, 0.18; s = 0.004, 0.003996
    v = torch.zeros(1, dtype=torch.float64)
    lr = torch.tensor(1.0, dtype=torch.float64)
    v, moments = adam().step(v, torch.full_like(v, 2.0), adam().init(v), lr)
    v, moments = adam().step(v, torch.zeros_like(v), moments, lr)
    second = (0.18 / 0.19) / math.sqrt(0.003996 / 0.001999)
    assert v.item() == pytest.approx(-1 - second, abs=1e-7)
    assert [m.item() for m in moments] == pytest.approx([0.18, 0.003996, 2.0])


@pytest.mark.parametrize("setting", SETTINGS)
def test_as_torch_does(setting: tuple[float, float, float]) -> None:
    optimizer = adam(beta1=setting[0], beta2=setting[1], eps=setting[2])
    for a, b, start in zip(*quadratics(), strict=True):
        v, moments = start, optimizer.init(start)
        for _ in range(10):
            v, moments = optimizer.step(v, a @ v - b, moments, LR)
        expected = torch_does(a, b, start, *setting)
        torch.testing.assert_close(v, expected, rtol=1e-12, atol=1e-12)


def test_many_rows_as_torch_does_each() -> None:
    optimizer = adam()
    a, b, start = quadratics()
    step = torch.func.vmap(optimizer.step, in_dims=(0, 0, 0, None))
    v: Tensor = start
    moments: Any = torch.func.vmap(optimizer.init)(start)
    for _ in range(10):
        v, moments = step(v, (a @ v[..., None])[..., 0] - b, moments, LR)
    each = [torch_does(*one, *SETTINGS[0]) for one in zip(a, b, start, strict=True)]
    torch.testing.assert_close(v, torch.stack(each), rtol=1e-12, atol=1e-12)


def test_inputs_stay_as_they_are() -> None:
    v, g = torch.randn(3), torch.randn(3)
    moments = adam().init(v)
    kept = [t.clone() for t in (v, g, *moments)]
    adam().step(v, g, moments, torch.tensor(0.1))
    assert all(torch.equal(a, b) for a, b in zip(kept, (v, g, *moments), strict=True))


def test_no_curvature_is_too_much() -> None:
    assert adam().limit == math.inf


@pytest.mark.parametrize(
    "bad",
    [
        {"beta1": -0.1},
        {"beta1": 1.0},
        {"beta1": float("nan")},
        {"beta2": -0.1},
        {"beta2": 1.0},
        {"beta2": float("nan")},
        {"eps": 0.0},
        {"eps": -1e-8},
        {"eps": float("nan")},
    ],
)
def test_refuses_what_is_out_of_range(bad: dict[str, float]) -> None:
    ((key, value),) = bad.items()
    with pytest.raises(Refusal, match=rf"{key} = {value}\b.*must"):
        adam(**bad)


def test_options_and_reference() -> None:
    assert lookup.check("optimizer", "adam", {}) == {
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1e-8,
    }
    (entry,) = lookup.about("optimizer", "adam").citations
    assert entry.startswith("@inproceedings{kingma2015adam")
