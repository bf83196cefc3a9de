from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from troth import lookup
from troth.client.regularizers.l2 import l2
from troth.networks import task as tasks
from troth.types import Batch, Task

NONE = Batch(*(torch.zeros(0) for _ in range(5)))


def plain() -> Task:
    return tasks.functional(tasks.Objective(nn.Linear(1, 2), 2))


def number(*x: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(x, dtype=dtype)


def test_by_hand() -> None:
    v, w = number(4.0, 2.0, 1.0), number(1.0, -2.0, 1.0)
    assert l2(plain()).value(v, w, NONE).item() == pytest.approx(5.0, rel=1e-15)
    found = l2(plain()).grad(v, w, NONE)
    torch.testing.assert_close(found, number(0.6, 0.8, 0.0), rtol=1e-15, atol=0)


@pytest.mark.parametrize("far", [1e-38, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e37])
def test_pulls_alike_from_near_and_far(far: float) -> None:
    """In single precision, where squares of such numbers are 0 or infinite."""
    away = far * number(3.0, -4.0, dtype=torch.float32)
    w = torch.zeros_like(away)
    assert l2(plain()).value(away, w, NONE).item() == pytest.approx(5 * far, rel=1e-6)
    pull = l2(plain()).grad(away, w, NONE)
    assert pull.tolist() == pytest.approx([0.6, -0.8], rel=1e-6)


@pytest.mark.parametrize("at", [0.0, 1.0, 1e30])
def test_nothing_pulls_at_the_shared_model(at: float) -> None:
    w = torch.full((4,), at)
    assert l2(plain()).value(w, w, NONE).item() == 0.0
    assert l2(plain()).grad(w, w, NONE).tolist() == [0.0] * 4
    slope = torch.func.grad(l2(plain()).value)(w, w, NONE)
    assert slope.tolist() == [0.0] * 4


def test_running_statistics_are_no_distance() -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    task = tasks.functional(tasks.Objective(net, 0))
    v = number(3.0, 4.0, 0.0, 0.0, 100.0, 7.0)  # the last two are statistics
    assert (task.d, task.tail) == (6, 2)
    assert l2(task).value(v, torch.zeros_like(v), NONE).item() == 5.0
    pull = l2(task).grad(v, torch.zeros_like(v), NONE)
    assert pull.tolist() == pytest.approx([0.6, 0.8, 0.0, 0.0, 0.0, 0.0])


def test_no_bound_on_its_curvature() -> None:
    assert l2(plain()).curvature == 0.0


def test_options_and_reference() -> None:
    assert lookup.check("regularizer", "l2", {}) == {}
    (entry,) = lookup.about("regularizer", "l2").citations
    assert entry.startswith("@inproceedings{farhadkhani2022equivalence")
