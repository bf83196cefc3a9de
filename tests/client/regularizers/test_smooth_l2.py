from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from troth import lookup
from troth.client.regularizers.l2 import l2
from troth.client.regularizers.l2sq import l2sq
from troth.client.regularizers.smooth_l2 import smooth_l2
from troth.networks import task as tasks
from troth.types import Batch, Refusal, Task

NONE = Batch(*(torch.zeros(0) for _ in range(5)))


def plain() -> Task:
    return tasks.functional(tasks.Objective(nn.Linear(1, 2), 2))


def number(*x: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(x, dtype=dtype)


def test_by_hand() -> None:
    # √(12² + 5²) = 13
    v, w = number(4.0, 2.0), number(1.0, -2.0)
    one = smooth_l2(plain(), delta=12.0)
    assert one.value(v, w, NONE).item() == pytest.approx(1.0, rel=1e-14)
    assert one.grad(v, w, NONE).tolist() == pytest.approx([3 / 13, 4 / 13], rel=1e-14)


@pytest.mark.parametrize("delta", [0.01, 1.0, 50.0])
def test_near_it_is_l2sq_and_far_away_l2(delta: float) -> None:
    one, draw = smooth_l2(plain(), delta=delta), torch.Generator().manual_seed(1)
    away = torch.randn(6, generator=draw, dtype=torch.float64)
    zero = torch.zeros_like(away)
    near, far = 1e-6 * delta * away, 1e9 * delta * away
    expected = l2sq().grad(near, zero, NONE) / delta
    torch.testing.assert_close(one.grad(near, zero, NONE), expected, rtol=1e-9, atol=0)
    value = one.value(near, zero, NONE).item()  # where √(δ² + r²) − δ would cancel
    expected_value = l2sq().value(near, zero, NONE).item() / delta
    assert value == pytest.approx(expected_value, rel=1e-9)
    straight = l2(plain()).grad(far, zero, NONE)
    torch.testing.assert_close(one.grad(far, zero, NONE), straight, rtol=1e-9, atol=0)


@pytest.mark.parametrize("delta", [0.1, 1.0, 3.0])
def test_its_curvature_is_the_largest_there_is(delta: float) -> None:
    one, draw = smooth_l2(plain(), delta=delta), torch.Generator().manual_seed(1)
    w = torch.randn(4, generator=draw, dtype=torch.float64)
    for far in (1e-4, 0.3, 2.0, 30.0):
        v = w + far * torch.randn(4, generator=draw, dtype=torch.float64)
        bend = torch.linalg.eigvalsh(torch.func.jacrev(one.grad)(v, w, NONE))
        assert 0 < bend.max() <= one.curvature * (1 + 1e-12)
        if far == 1e-4:
            assert bend.max().item() == pytest.approx(one.curvature, rel=1e-5)


@pytest.mark.parametrize("far", [1e-38, 1e-30, 1e30, 1e37])
def test_numbers_whose_squares_do_not_fit(far: float) -> None:
    away = far * number(3.0, -4.0, dtype=torch.float32)
    zero, one = torch.zeros_like(away), smooth_l2(plain())
    pull = one.grad(away, zero, NONE).double()
    expected = 5 * far / (1 + (5 * far) ** 2) ** 0.5
    assert pull.norm().item() == pytest.approx(expected, rel=1e-6)
    value = one.value(away, zero, NONE).item()
    assert value == pytest.approx(max(5 * far - 1, 0), rel=1e-6, abs=1e-37)


def test_running_statistics_are_no_distance() -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    task = tasks.functional(tasks.Objective(net, 0))
    v = number(3.0, 4.0, 0.0, 0.0, 100.0, 7.0)  # the last two are statistics
    pull = smooth_l2(task, delta=12.0).grad(v, torch.zeros_like(v), NONE)
    assert pull.tolist() == pytest.approx([3 / 13, 4 / 13, 0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("delta", [0.0, -1.0, float("inf"), float("nan")])
def test_refuses(delta: float) -> None:
    with pytest.raises(Refusal, match=f"delta = {delta} must be a finite number above"):
        smooth_l2(plain(), delta=delta)


def test_options_and_reference() -> None:
    assert lookup.check("regularizer", "smooth_l2", {}) == {"delta": 1.0}
    (entry,) = lookup.about("regularizer", "smooth_l2").citations
    assert entry.startswith("@inproceedings{farhadkhani2022equivalence")
