from __future__ import annotations

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.client import descent
from troth.client.personalizers.local import local
from troth.config.schema import Part
from troth.types import Anchor, Batch, Personal, Task


def loss(v: Tensor, batch: Batch) -> Tensor:
    return (batch.weight * 0.5 * (v - batch.x).square()).sum()


MEAN = Task(1, 0, loss, torch.func.grad(loss), lambda v, x: v.expand(len(x)))
ONE = torch.ones((), dtype=torch.float64)


def number(*x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


def batch(*x: float) -> Batch:
    values, zero = number(*x), torch.tensor(0)
    return Batch(values, values, torch.full_like(values, 1 / len(x)), zero, zero + 1)


def personal(optimizer: str = "sgd", lr: float = 0.1) -> Personal:
    part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
    return local(MEAN, descent(part, lr, 0.0))


def test_two_steps_by_hand() -> None:
    # 1 − 0.1·(1 − 5) = 1.4; then 1.4 − 0.1·(1.4 − 3) = 1.56
    one = personal()
    state = one.init(number(1.0))
    anchor = Anchor(number(100.0), number(-100.0), number(100.0))
    for b in (batch(5.0), batch(2.0, 4.0)):
        state = one.step(state, anchor, b, b, ONE)
    assert one.model(anchor.w, state).item() == pytest.approx(1.56, abs=1e-12)


def test_begins_at_the_first_shared_model() -> None:
    one = personal()
    state = one.init(number(1.0))
    assert one.model(number(9.0), state).item() == 1.0


@pytest.mark.parametrize("w", [0.0, 1e30, float("inf"), float("nan")])
def test_never_looks_at_the_shared_model(w: float) -> None:
    one, b = personal(), batch(5.0)
    states = [one.init(number(1.0)) for _ in range(2)]
    for _ in range(3):
        anchors = (
            Anchor(number(7.0), number(8.0), number(7.0)),
            Anchor(number(w), number(w), number(w)),
        )
        states = [
            one.step(s, a, b, b, ONE) for s, a in zip(states, anchors, strict=True)
        ]
    assert torch.equal(states[0][0], states[1][0])
    assert states[0][0].isfinite()


def test_the_schedule_scales_the_step() -> None:
    one, b = personal(), batch(5.0)
    anchor = Anchor(number(0.0), number(0.0), number(0.0))
    (v,) = one.step(one.init(number(1.0)), anchor, b, b, 0.5 * ONE)
    assert v.item() == pytest.approx(1.2, abs=1e-12)


def test_moments_live_on_in_the_state() -> None:
    one, b = personal("momentum"), batch(5.0)
    anchor = Anchor(number(0.0), number(0.0), number(0.0))
    state = one.init(number(1.0))
    assert [t.item() for t in state] == [1.0, 0.0]
    state = one.step(state, anchor, b, b, ONE)
    assert [t.item() for t in state] == pytest.approx([1.4, -4.0])
    state = one.step(state, anchor, b, b, ONE)
    assert [t.item() for t in state] == pytest.approx([2.12, -7.2])


def test_comes_to_its_own_optimum() -> None:
    one, b = personal(lr=0.5), batch(2.0, 4.0)
    state = one.init(number(100.0))
    for _ in range(80):
        state = one.step(
            state, Anchor(number(0.0), number(0.0), number(0.0)), b, b, ONE
        )
    assert state[0].item() == pytest.approx(3.0, abs=1e-12)


def test_is_not_idle_and_has_no_options() -> None:
    assert not personal().idle
    assert lookup.check("personalizer", "local", {}) == {}
