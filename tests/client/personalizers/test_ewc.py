from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from troth import build, lookup
from troth.client.client import descent
from troth.client.personalizers.ewc import ewc
from troth.client.personalizers.finetune import finetune
from troth.config import reader
from troth.config.schema import Part
from troth.engine.engine import Plan
from troth.networks import task as tasks
from troth.types import Batch, Broadcast, Budget, Descent, Personal, Refusal, Task

F64 = torch.float64


def bowl(slopes: Tensor) -> Task:
    """F(v) = ½·Σ_i slopes_i·(v_i − x_i)²: g = slopes·(v − x)."""

    def loss(v: Tensor, batch: Batch) -> Tensor:
        return 0.5 * (slopes * (v - batch.x[0]).square()).sum()

    return Task(len(slopes), 0, loss, torch.func.grad(loss), lambda v, x: x)


def number(*x: float) -> Tensor:
    return torch.tensor(x, dtype=F64)


def batch(t: int, *x: float) -> Batch:
    value, one = number(*x)[None], torch.ones(1, dtype=F64)
    return Batch(value, value, one, torch.tensor(t), torch.tensor(1))


def sgd(lr: float, tail: int = 0, name: str = "sgd") -> Descent:
    part = Part(name, lookup.check("optimizer", name, {}))
    return descent(part, lr, 0.0, tail)


def finished(one: Personal, w: Tensor, seen: list[Batch]) -> Tensor:
    phase, sent = one.finish, Broadcast(w, w[:0], torch.ones((), dtype=F64))
    assert phase is not None
    state = one.init(torch.zeros_like(w))
    carry = phase.begin(sent, state)
    for b in seen:
        carry = phase.step(sent, carry, b, b)
    reply, state = phase.end(sent, carry, state, seen[0])
    v = one.model(torch.full_like(w, 7.0), state)
    assert torch.equal(reply.update, v - w)
    return v


def test_by_hand() -> None:
    # w = (1, 1), slopes (1, 2); x = (0, 0), (3, 0): g = (1, 2), (−2, 2);
    # F = ((1 + 4)/2, 4). Then x = (2, 2): g = (−1, −2), no pull yet: v = (1.1, 1.2);
    # g = (−0.9, −1.6), pull 0.5·(2.5·0.1, 4·0.2): v = (1.1775, 1.32)
    one = ewc(bowl(number(1.0, 2.0)), sgd(0.1), None, lam=0.5, batches=2)
    seen = [batch(0, 0.0, 0.0), batch(1, 3.0, 0.0), batch(2, 2.0, 2.0)]
    w = number(1.0, 1.0)
    assert finished(one, w, seen[:2]).tolist() == [1.0, 1.0]  # measuring
    assert finished(one, w, seen).tolist() == pytest.approx([1.1, 1.2])
    whole = [*seen, batch(3, 2.0, 2.0)]
    assert finished(one, w, whole).tolist() == pytest.approx([1.1775, 1.32])


def test_ends_at_the_minimiser_of_its_objective() -> None:
    """argmin ½·s·(v − x)² + (λ/2)·F·(v − w)², F = (s·(w − x))²."""
    slopes, w, x = number(0.5, 1.0, 3.0), number(1.0, -2.0, 0.5), number(2.0, 1.0, 0.0)
    one = ewc(bowl(slopes), sgd(0.03), None, lam=2.0, batches=1)
    v = finished(one, w, [batch(t, *x.tolist()) for t in range(1200)])
    f = (slopes * (w - x)).square()
    expected = (slopes * x + 2.0 * f * w) / (slopes + 2.0 * f)
    torch.testing.assert_close(v, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("optimizer", lookup.names("optimizer"))
@pytest.mark.parametrize("batches", [1, 4])
def test_without_pull_it_is_finetune_on_the_later_batches(
    optimizer: str, batches: int
) -> None:
    task, step = bowl(number(1.0, 2.0, 0.3)), sgd(0.1, name=optimizer)
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(9, 3, generator=draw, dtype=F64).tolist()
    seen, w = [batch(t, *row) for t, row in enumerate(x)], number(1.0, -1.0, 2.0)
    found = finished(ewc(task, step, None, lam=0.0, batches=batches), w, seen)
    plain = finished(finetune(task, step, None), w, seen[batches:])
    assert torch.equal(found, plain)
    pulled = finished(ewc(task, step, None, lam=1.0, batches=batches), w, seen)
    assert not torch.allclose(pulled, plain, 0, 1e-3)


def test_a_shared_model_far_off() -> None:
    """Single precision: F is 1e60, and does no harm where nothing pulls."""
    slopes, w = torch.ones(2), torch.full((2,), 1e30)
    zero = torch.zeros(1, 2)
    seen = [
        Batch(zero, zero, torch.ones(1), torch.tensor(t), torch.tensor(1))
        for t in range(4)
    ]
    for lam in (0.0, 1.0):
        one = ewc(bowl(slopes), sgd(0.5), None, lam=lam, batches=1)
        phase, sent = one.finish, Broadcast(w, w[:0], torch.ones(()))
        assert phase is not None
        carry = phase.begin(sent, one.init(w))
        for b in seen[: 4 if lam == 0 else 2]:
            carry = phase.step(sent, carry, b, b)
        assert carry[0].isfinite().all()


def test_running_statistics_are_not_pulled() -> None:
    """Those of a normalisation of inputs depend on the batches alone."""
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)).double()
    task = tasks.functional(tasks.Objective(net, 2), "float64")
    w, draw = tasks.flatten(net), torch.Generator().manual_seed(1)
    seen = []
    for t in range(6):
        x, y = torch.randn(4, 3, generator=draw, dtype=F64), torch.tensor([0, 1, 1, 0])
        weight = torch.full((4,), 0.25, dtype=F64)
        seen.append(Batch(x, y, weight, torch.tensor(t), torch.tensor(1)))
    step = sgd(0.1, task.tail)
    found = finished(ewc(task, step, None, lam=50.0, batches=2), w, seen)
    plain = finished(finetune(task, step, None), w, seen[2:])
    assert torch.equal(found[-6:], plain[-6:]) and not torch.equal(found[-6:], w[-6:])
    assert not torch.allclose(found[:-6], plain[:-6], 0, 1e-4)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (None, Budget(steps=4, epochs=50)),
        (Budget(steps=10), Budget(steps=14)),
        (Budget(epochs=2), Budget(steps=4, epochs=2)),
    ],
)
def test_measuring_takes_nothing_off_its_budget(
    budget: Budget | None, expected: Budget
) -> None:
    one = ewc(bowl(number(1.0)), sgd(0.1), budget)
    assert one.finish is not None and one.finish.budgets == (expected,)


def models(personalizer: Any, plan: Plan) -> tuple[Tensor, Tensor]:
    tree = {
        "partition": {"name": "classes", "clients": 5, "per_client": 6},
        "model": "linear",
        "train": {"rounds": 2, "steps": 2, "batch": 40, "precision": "float64"},
        "personalizer": personalizer,
    }
    f = build.build(reader.from_dict(tree), plan=plan).federation
    for _ in f.train():
        pass
    list(f.finish(5))
    found = f.engine.models(f.broadcast.w, f.population.read(np.arange(5)))
    return f.broadcast.w, found


def test_held_back_where_the_shared_model_depends() -> None:
    plan, own = Plan("loop", 1), {"name": "ewc", "lr": 0.02, "epochs": 3}
    w, free = models({**own, "lam": 0.0}, plan)
    for lam, most in ((30.0, 1.0), (100.0, 0.9)):
        _, held = models({**own, "lam": lam}, plan)
        share = (held - w).norm(dim=1) / (free - w).norm(dim=1)
        assert (share < most).all() and (share > 0).all()


@pytest.mark.parametrize("batches", [0, -1])
def test_refuses_to_measure_nothing(batches: int) -> None:
    with pytest.raises(Refusal, match=f"ewc's batches = {batches} must be at least 1"):
        ewc(bowl(number(1.0)), sgd(0.1), None, batches=batches)


def test_no_step_is_refused() -> None:
    ewc(bowl(number(1.0)), sgd(0.1), None, lam=1e9)


def test_options_and_reference() -> None:
    expected = {"lam": 1.0, "batches": 4}
    assert lookup.check("personalizer", "ewc", {}) == expected
    (entry,) = lookup.about("personalizer", "ewc").citations
    assert entry.startswith("@article{kirkpatrick2017overcoming")
