import pytest
import torch
from torch import nn

from troth.client.regularizers.fisher import fisher
from troth.client.regularizers.l2sq import l2sq
from troth.networks import task as tasks
from troth.types import Batch, Refusal

from ..hand import F64, INF, NAN, drawn


def problem(rows=5, padding=0):
    """A classifier of three numbers into two classes; some rows are padding."""
    task = tasks.functional(tasks.Objective(nn.Linear(3, 2).double(), 2), "float64")
    whole = rows + padding
    weight = (torch.arange(whole) < rows).double() / rows
    y = torch.arange(whole) % 2
    x = drawn(whole, 3, seed=3)
    return task, Batch(x, y, weight, torch.tensor(0), torch.tensor(1))


def regression(dtype=F64):
    """f(x) = w·x of two numbers, one example x = (1, 2), y = 3: g = (w·x − 3)·x."""
    net = nn.Linear(2, 1, bias=False).to(dtype)
    x, y = torch.tensor([[1.0, 2.0]], dtype=dtype), torch.tensor([3.0], dtype=dtype)
    one = torch.ones(1, dtype=dtype)
    batch = Batch(x, y, one, torch.tensor(0), torch.tensor(1))
    return tasks.functional(tasks.Objective(net, 0)), batch


def test_by_hand():
    task, batch = regression()
    w, v = torch.tensor([1.0, 2.0], dtype=F64), torch.tensor([2.0, 5.0], dtype=F64)
    # w·x = 5, g = 2·(1, 2) = (2, 4), F = (4, 16), v − w = (1, 3)
    assert fisher(task).grad(v, w, batch).tolist() == pytest.approx([4.0, 48.0])
    assert fisher(task).value(v, w, batch).item() == pytest.approx((4 + 144) / 2)
    half = fisher(task, power=0.5)
    assert half.grad(v, w, batch).tolist() == pytest.approx([2.0, 12.0])


@pytest.mark.parametrize("batches", [1, 2, 9])
def test_to_the_power_of_nothing_it_is_l2sq_exactly(batches):
    task, batch = problem()
    one = fisher(task, power=0.0, batches=batches)
    v, w = drawn(2, task.d)
    assert torch.equal(one.grad(v, w, batch), l2sq().grad(v, w, batch))
    assert torch.equal(one.value(v, w, batch), l2sq().value(v, w, batch))
    assert one.curvature == l2sq().curvature


@pytest.mark.parametrize("padding", [0, 3])
def test_cut_into_single_examples(padding):
    """The mean of squared gradients of examples, padding left out."""
    rows = 5
    task, batch = problem(rows, padding)
    v, w = drawn(2, task.d)
    each = []
    for i in range(rows):
        x, y, one = batch.x[i : i + 1], batch.y[i : i + 1], torch.ones(1, dtype=F64)
        each.append(task.grad(w, batch._replace(x=x, y=y, weight=one)).square())
    expected = torch.stack(each).mean(0) * (v - w)
    for batches in (rows + padding, 100):  # more than there are: the same
        found = fisher(task, batches=batches).grad(v, w, batch)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
    whole = fisher(task).grad(v, w, batch)
    assert not torch.allclose(whole, expected, rtol=0.1)


def test_cut_into_unequal_parts():
    task, batch = problem(rows=5)
    v, w = drawn(2, task.d)
    expected = torch.zeros_like(w)
    for rows in ([0, 2, 4], [1, 3]):
        weight = torch.full((len(rows),), 1 / len(rows), dtype=F64)
        part = batch._replace(x=batch.x[rows], y=batch.y[rows], weight=weight)
        expected += len(rows) / 5 * task.grad(w, part).square()
    found = fisher(task, batches=2).grad(v, w, batch)
    torch.testing.assert_close(found, expected * (v - w), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("batches", [1, 3])
def test_a_client_without_examples_is_not_pulled(batches):
    task, batch = problem()
    v, w = drawn(2, task.d)
    none = batch._replace(weight=torch.zeros_like(batch.weight))
    assert fisher(task, batches=batches).grad(v, w, none).tolist() == [0.0] * task.d


def test_gradients_whose_squares_do_not_fit():
    """A shared model at 1e30 in single precision: F is 1e60, and times 0 it is 0."""
    task, batch = regression(torch.float32)
    w = torch.full((2,), 1e30)
    assert fisher(task).grad(w, w, batch).tolist() == [0.0, 0.0]
    assert fisher(task).value(w, w, batch).item() == 0.0
    assert not fisher(task).grad(-w, w, batch).isnan().any()


def test_pulls_hard_where_the_loss_depends():
    """An input that is always 0 has no gradient: its weight is free to go."""
    task, batch = problem()
    x = batch.x.clone()
    x[:, 1] = 0
    v, w = drawn(2, task.d)
    pull = fisher(task).grad(v, w, batch._replace(x=x))
    assert pull[[1, 4]].tolist() == [0.0, 0.0]
    assert pull[[0, 2, 3, 5]].abs().min() > 0


def test_refuses():
    for power in (-1.0, INF, NAN):
        with pytest.raises(Refusal, match=f"power = {power} must be a finite number"):
            fisher(problem()[0], power=power)
    for batches in (0, -4):
        with pytest.raises(Refusal, match=f"batches = {batches} must be at least 1"):
            fisher(problem()[0], batches=batches)
