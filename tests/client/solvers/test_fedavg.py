from __future__ import annotations

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.client import descent
from troth.client.solvers.fedavg import fedavg
from troth.config.schema import Part
from troth.types import Batch, Broadcast, Carry, Reply, Solver, Task

EMPTY = torch.zeros(0, dtype=torch.float64)


def loss(v: Tensor, batch: Batch) -> Tensor:
    return (batch.weight * 0.5 * (v - batch.x).square()).sum()


MEAN = Task(1, 0, loss, torch.func.grad(loss), lambda v, x: v.expand(len(x)))
"""The estimation of a mean: F(v) = ½ Σ weight·(v − x)²."""


def batch(*x: float) -> Batch:
    values = torch.tensor(x, dtype=torch.float64)
    zero = torch.tensor(0)
    return Batch(values, values, torch.full_like(values, 1 / len(x)), zero, zero + 1)


def broadcast(w: float, scale: float = 1.0, extra: Tensor = EMPTY) -> Broadcast:
    one = torch.tensor([w], dtype=torch.float64)
    return Broadcast(one, extra, torch.tensor(scale, dtype=torch.float64))


def solver(optimizer: str = "sgd", lr: float = 0.1, decay: float = 0.0) -> Solver:
    part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
    return fedavg(MEAN, descent(part, lr, decay))


def round_(solver: Solver, sent: Broadcast, *batches: Batch) -> tuple[Reply, Carry]:
    state = solver.init(sent.w)
    carry = solver.begin(sent, state)
    for one in batches:
        carry = solver.step(sent, carry, one)
    return solver.end(sent, carry, state)


def test_two_steps_by_hand() -> None:
    # 1 − 0.1·(1 − 5) = 1.4; then 1.4 − 0.1·(1.4 − 3) = 1.56
    sent = broadcast(1.0)
    reply, state = round_(solver(), sent, batch(4.0, 6.0), batch(3.0))
    assert reply.update.item() == pytest.approx(0.56, abs=1e-12)
    assert reply.extra.shape == (0,)
    assert state == ()
    assert sent.w.item() == 1.0  # untouched


def test_the_reply_is_a_displacement() -> None:
    reply, _ = round_(solver(), broadcast(5.0), batch(5.0), batch(5.0))
    assert reply.update.item() == 0.0
    reply, _ = round_(solver(), broadcast(-7.0))
    assert reply.update.item() == 0.0


def test_the_carry_starts_with_the_moving_copy() -> None:
    sent = broadcast(1.0)
    carry = solver().begin(sent, ())
    assert torch.equal(carry[0], sent.w)
    moved = solver().step(sent, carry, batch(5.0))
    assert moved[0].item() == pytest.approx(1.4)


def test_the_schedule_scales_every_step() -> None:
    # 1 − 0.05·(1 − 5) = 1.2; then 1.2 − 0.05·(1.2 − 3) = 1.29
    reply, _ = round_(solver(), broadcast(1.0, scale=0.5), batch(5.0), batch(3.0))
    assert reply.update.item() == pytest.approx(0.29, abs=1e-12)


def test_weight_decay_is_part_of_the_gradient() -> None:
    # 1 − 0.1·(1 − 5 + 2·1) = 1.2
    reply, _ = round_(solver(decay=2.0), broadcast(1.0), batch(5.0))
    assert reply.update.item() == pytest.approx(0.2, abs=1e-12)


def test_moments_last_a_round() -> None:
    # m = −4, v = 1.4; m = 0.9·(−4) − 3.6 = −7.2, v = 2.12
    reply, _ = round_(solver("momentum"), broadcast(1.0), batch(5.0), batch(5.0))
    assert reply.update.item() == pytest.approx(1.12, abs=1e-12)


@pytest.mark.parametrize("optimizer", lookup.names("optimizer"))
def test_moments_start_anew_every_round(optimizer: str) -> None:
    one = solver(optimizer)
    first, state = round_(one, broadcast(1.0), batch(5.0), batch(3.0))
    carry = one.begin(broadcast(1.0), state)
    assert all(not moment.any() for moment in carry[1:])
    for b in (batch(5.0), batch(3.0)):
        carry = one.step(broadcast(1.0), carry, b)
    again, _ = one.end(broadcast(1.0), carry, state)
    assert torch.equal(first.update, again.update)


def test_what_travels_beside_comes_back() -> None:
    extra = torch.tensor([1.0, 2.0], dtype=torch.float64)
    reply, _ = round_(solver(), broadcast(1.0, extra=extra), batch(5.0))
    assert reply.extra.shape == (2,)
    assert solver().extra == 0


def test_says_where_it_comes_from() -> None:
    assert lookup.check("solver", "fedavg", {}) == {}
    (entry,) = lookup.about("solver", "fedavg").citations
    assert entry.startswith("@inproceedings{mcmahan2017communication")
