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


def test_by_hand():
    """f(x) = w·x of two numbers, one example x = (1, 2), y = 3: g = (w·x − 3)·x."""
    objective = tasks.Objective(nn.Linear(2, 1, bias=False).double(), 0)
    x, y = torch.tensor([[1.0, 2.0]], dtype=F64), torch.tensor([3.0], dtype=F64)
    batch = Batch(x, y, y / 3, torch.tensor(0), torch.tensor(1))
    task = tasks.functional(objective)
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


@pytest.mark.parametrize(
    ("padding", "batches", "parts"),
    [
        *((0, many, [[0], [1], [2], [3], [4]]) for many in (5, 100)),  # no more than
        *((3, many, [[0], [1], [2], [3], [4]]) for many in (8, 100)),  # there are
        (0, 2, [[0, 2, 4], [1, 3]]),
    ],
)
def test_cut_into_parts(padding, batches, parts):
    """The mean of squared gradients, of unequal parts too; padding is left out."""
    task, batch = problem(5, padding)
    v, w = drawn(2, task.d)
    expected = torch.zeros_like(w)
    for rows in parts:
        weight = torch.full((len(rows),), 1 / len(rows), dtype=F64)
        part = batch._replace(x=batch.x[rows], y=batch.y[rows], weight=weight)
        expected += len(rows) / 5 * task.grad(w, part).square() * (v - w)
    found = fisher(task, batches=batches).grad(v, w, batch)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
    assert not torch.allclose(fisher(task).grad(v, w, batch), expected, rtol=0.1)


@pytest.mark.parametrize("batches", [1, 3])
def test_a_client_without_examples_is_not_pulled(batches):
    task, batch = problem()
    v, w = drawn(2, task.d)
    none = batch._replace(weight=torch.zeros_like(batch.weight))
    assert fisher(task, batches=batches).grad(v, w, none).tolist() == [0.0] * task.d


@pytest.mark.parametrize(
    ("option", "values", "words"),
    [
        ("power", [-1.0, INF, NAN], "must be a finite number"),
        ("batches", [0, -4], "must be at least 1"),
    ],
)
def test_refuses(option, values, words):
    for x in values:
        with pytest.raises(Refusal, match=f"{option} = {x} {words}"):
            fisher(problem()[0], **{option: x})
