"""What holds of every regularizer in the folder."""

import pytest
import torch
from torch import nn

from troth import lookup
from troth.networks import task as tasks
from troth.types import Batch, Regularizer

from ..hand import F64, drawn

NAMES = lookup.names("regularizer")
POINTS = list(drawn(5, 2, 8, seed=2))
EVERY = pytest.mark.parametrize("name", NAMES)


def problem():
    """A classifier of three numbers into two classes: d = 8, float64."""
    task = tasks.functional(tasks.Objective(nn.Linear(3, 2).double(), 2), "float64")
    weight, label = torch.full((6,), 1 / 6, dtype=F64), torch.tensor([0, 1, 1, 0, 1, 0])
    return task, Batch(drawn(6, 3), label, weight, torch.tensor(0), torch.tensor(1))


def made(name, task):
    given = lookup.check("regularizer", name, {})
    return lookup.call(lookup.find("regularizer", name), given, task=task)


@EVERY
def test_a_distance_and_its_gradient(name):
    """A number that is never negative, nothing at w; it touches nothing it reads."""
    task, batch = problem()
    one = made(name, task)
    assert isinstance(one, Regularizer)
    for v, w in POINTS:
        kept = v.clone(), w.clone()
        expected, found = torch.func.grad(one.value)(v, w, batch), one.grad(v, w, batch)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        assert abs(one.value(w, w, batch).item()) < 1e-12
        assert one.grad(w, w, batch).abs().max() < 1e-12
        for near in (1.0, 1e-3):
            value = one.value(w + near * (v - w), w, batch)
            assert (value.shape, value.dtype) == ((), v.dtype) and value >= -1e-15
        assert torch.equal(v, kept[0]) and torch.equal(w, kept[1])


@EVERY
def test_rows_together_as_each_alone(name):
    task, batch = problem()
    pull = made(name, task).grad
    v, w = torch.stack(POINTS).unbind(1)
    found = torch.func.vmap(pull, in_dims=(0, 0, None))(v, w, batch)
    each = torch.stack([pull(a, b, batch) for a, b in POINTS])
    torch.testing.assert_close(found, each, rtol=1e-12, atol=1e-14)


@EVERY
@pytest.mark.parametrize("far", [1e-30, 1.0, 1e30])
def test_never_no_number(name, far):
    """Single precision, models driven far off or near to nothing."""
    objective, (_, batch) = tasks.Objective(nn.Linear(3, 2), 2), problem()
    batch = batch._replace(x=batch.x.float(), weight=batch.weight.float())
    for task in (tasks.functional(objective), tasks.in_place(objective)):
        regularizer = made(name, task)
        for v, w in far * torch.stack(POINTS).float():
            for other in (v, -v, w, torch.zeros_like(v)):
                assert not regularizer.value(other, w, batch).isnan()
                assert regularizer.grad(other, w, batch).isfinite().all()
            assert regularizer.value(w, w, batch).item() == 0.0
            assert regularizer.grad(w, w, batch).abs().max() < 1e-6


@EVERY
def test_the_same_on_a_task_in_place(name):
    """Whose gradients lie in one buffer, which the next call overwrites."""
    task, batch = problem()
    own = tasks.in_place(tasks.Objective(nn.Linear(3, 2).double(), 2), "float64")
    for v, w in POINTS:
        found = made(name, own).grad(v, w, batch)
        kept = found.clone()
        own.grad(w, batch)
        assert torch.equal(found, kept)  # it is not that buffer
        expected = made(name, task).grad(v, w, batch)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
