from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.client import descent
from troth.client.combine import beside
from troth.client.personalizers.ditto import ditto
from troth.client.personalizers.local import local
from troth.client.regularizers.l2sq import l2sq
from troth.client.solvers.fedavg import fedavg
from troth.config.schema import Part
from troth.types import (
    Anchor,
    Batch,
    Broadcast,
    Budget,
    Descent,
    Personal,
    Refusal,
    Regularizer,
    Task,
)

ONE = torch.ones((), dtype=torch.float64)


def bowl(curvature: float = 1.0, d: int = 1) -> Task:
    """F(v) = ½·L·Σ weight·‖v − x‖²."""

    def loss(v: Tensor, batch: Batch) -> Tensor:
        away = (v - batch.x).square().sum(dim=-1)
        return 0.5 * curvature * (batch.weight * away).sum()

    return Task(d, 0, loss, torch.func.grad(loss), lambda v, x: x)


def batch(x: Tensor) -> Batch:
    """One example, of any width."""
    one, zero = x[None], torch.tensor(0)
    return Batch(one, one, torch.ones(1, dtype=x.dtype), zero, zero + 1)


def number(*x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


def by(lr: float, optimizer: str = "sgd", **options: float) -> Descent:
    part = Part(optimizer, lookup.check("optimizer", optimizer, options))
    return descent(part, lr, 0.0)


def stepped(one: Personal, v: Tensor, w: Tensor, x: Tensor, steps: int = 1) -> Tensor:
    state, b = one.init(v), batch(x)
    for _ in range(steps):
        state = one.step(state, Anchor(w, torch.full_like(w, 77.0), w), b, b, ONE)
    return one.model(w, state)


def test_a_step_by_hand() -> None:
    # ∇F(1) = 1 − 5 = −4, λ(v − w) = 2·(1 − 4) = −6: 1 + 0.1·10 = 2
    one = ditto(bowl(), by(0.1), l2sq(), lam=2.0)
    assert stepped(one, number(1.0), number(4.0), number(5.0)).item() == pytest.approx(
        2.0, abs=1e-14
    )


def test_a_second_step_by_hand() -> None:
    # at 2: −3 + 2·(−2) = −7: 2.7
    one = ditto(bowl(), by(0.1), l2sq(), lam=2.0)
    found = stepped(one, number(1.0), number(4.0), number(5.0), steps=2)
    assert found.item() == pytest.approx(2.7, abs=1e-14)


def test_the_schedule_scales_both_terms() -> None:
    one, b = ditto(bowl(), by(0.1), l2sq(), lam=2.0), batch(number(5.0))
    anchor = Anchor(number(4.0), number(4.0), number(4.0))
    (v,) = one.step(one.init(number(1.0)), anchor, b, b, 0.5 * ONE)
    assert v.item() == pytest.approx(1.5, abs=1e-14)


def test_any_regularizer_is_pulled_by_its_gradient() -> None:
    steep = Regularizer(lambda v, w, b: (v - w).sum() * 3, lambda v, w, b: 0 * v + 3)
    one = ditto(bowl(), by(0.1), steep, lam=2.0)
    found = stepped(one, number(1.0), number(4.0), number(5.0))
    assert found.item() == pytest.approx(1 - 0.1 * (-4 + 6), abs=1e-14)


def test_begins_at_the_first_shared_model() -> None:
    one = ditto(bowl(), by(0.1), l2sq())
    assert one.model(number(9.0), one.init(number(1.0))).item() == 1.0


@pytest.mark.parametrize("optimizer", lookup.names("optimizer"))
@pytest.mark.parametrize("w", [4.0, 1e30, float("inf"), float("-inf"), float("nan")])
def test_without_pull_it_is_local_exactly(optimizer: str, w: float) -> None:
    draw = torch.Generator().manual_seed(3)
    start, x = torch.randn(2, 5, generator=draw, dtype=torch.float64)
    task, step = bowl(0.7, d=5), by(0.1, optimizer)
    there = torch.full_like(start, w)
    found = stepped(ditto(task, step, l2sq(), lam=0.0), start, there, x, steps=4)
    assert torch.equal(found, stepped(local(task, step), start, there, x, steps=4))
    assert found.isfinite().all()


@pytest.mark.parametrize("lam", [-1.0, -1e-12, float("-inf")])
def test_refuses_a_negative_pull(lam: float) -> None:
    with pytest.raises(Refusal, match=rf"lam = {lam} .* at least 0"):
        ditto(bowl(), by(0.1), l2sq(), lam=lam)


@pytest.mark.parametrize("lam", [float("nan"), float("inf")])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_refuses_a_pull_that_is_no_number(lam: float, optimizer: str) -> None:
    with pytest.raises(Refusal, match=f"lam = {lam}"):
        ditto(bowl(), by(0.1, optimizer), l2sq(), lam=lam)


def test_refuses_a_step_that_diverges() -> None:
    words = "lr·lam = 0.1·20 = 2 must stay below 2; set personalizer.lr below 0.1"
    with pytest.raises(Refusal, match=re.escape(words)):
        ditto(bowl(), by(0.1), l2sq(), lam=20.0)
    words = "lr·lam = 0.5·8 = 4 must stay below 2; set personalizer.lr below 0.25"
    with pytest.raises(Refusal, match=re.escape(words)):
        ditto(bowl(), by(0.5), l2sq(), lam=8.0)


@pytest.mark.parametrize("lam", [0.01, 1.0, 3.0, 30.0])
def test_what_is_refused_diverges_and_what_is_not_does_not(lam: float) -> None:
    flat, w = bowl(0.0), number(0.0)  # no curvature of the data: the pull alone
    one = ditto(flat, by(1.999 / lam), l2sq(), lam=lam)
    assert stepped(one, number(1.0), w, w, steps=50).abs() < 1
    with pytest.raises(Refusal, match="diverges"):
        ditto(flat, by(2.0 / lam * 1.0001), l2sq(), lam=lam)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_momentum_bears_more(beta: float) -> None:
    limit = 2 * (1 + beta)
    ditto(bowl(), by(0.1, "momentum", beta=beta), l2sq(), lam=9.99 * limit)
    with pytest.raises(Refusal, match=f"must stay below {limit:g}"):
        ditto(bowl(), by(0.1, "momentum", beta=beta), l2sq(), lam=10.01 * limit)


def test_adam_bears_all() -> None:
    one = ditto(bowl(), by(0.1, "adam"), l2sq(), lam=1e6)
    assert stepped(one, number(1.0), number(4.0), number(5.0)).item() == pytest.approx(
        1.1
    )


@pytest.mark.parametrize("lam", [0.0, 0.01, 0.1, 1.0, 2.0, 10.0, 30.0])
@pytest.mark.parametrize("share", [0.3, 1.0, 1.9])
def test_converges_to_the_optimum_between(lam: float, share: float) -> None:
    """lr·(L + λ) < 2: v → (L·c + λ·w)/(L + λ), and so ‖v − w‖ ≤ ‖∇F(w)‖/λ."""
    curvature, d = 3.0, 4
    draw = torch.Generator().manual_seed(5)
    start, w, c = torch.randn(3, d, generator=draw, dtype=torch.float64)
    task = bowl(curvature, d)
    one = ditto(task, by(share / (curvature + lam)), l2sq(), lam=lam)
    v = stepped(one, start, w, c, steps=400)
    expected = (curvature * c + lam * w) / (curvature + lam)
    torch.testing.assert_close(v, expected, rtol=1e-10, atol=1e-10)
    away = torch.linalg.vector_norm(v - w)
    assert lam * away <= torch.linalg.vector_norm(task.grad(w, batch(c))) + 1e-9


def test_a_step_too_long_for_the_data_diverges() -> None:
    """lr·(L + λ) > 2 is not refused, for L is not known; it diverges."""
    one = ditto(bowl(3.0), by(2.1 / 4), l2sq(), lam=1.0)
    assert stepped(one, number(1.0), number(0.0), number(0.0), steps=100) > 1e3


def test_a_strong_pull_is_the_shared_model() -> None:
    one = ditto(bowl(), by(1e-6), l2sq(), lam=1e6)
    found = stepped(one, number(1.0), number(4.0), number(5.0), steps=50)
    assert found.item() == pytest.approx(4.0, abs=1e-5)


# The anchor


def noisy(d: int, seed: int = 7) -> Batch:
    """Four examples of unequal weight."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(4, d, generator=draw, dtype=torch.float64)
    weight = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    return Batch(x, x, weight, torch.tensor(0), torch.tensor(1))


@pytest.mark.parametrize("lam", [0.01, 0.7, 3.0])
def test_the_shared_anchor_bit_for_bit(lam: float) -> None:
    """v − η(∇F(v) + λ(v − wᵗ)), each operation as it always was."""
    d, task, lr = 6, bowl(1.3, d=6), 0.07
    draw = torch.Generator().manual_seed(1)
    v, w, moving = torch.randn(3, d, generator=draw, dtype=torch.float64)
    one = ditto(task, by(lr), l2sq(), lam=lam)
    state = one.init(v)
    for t in range(5):
        b = noisy(d, seed=t)
        state = one.step(state, Anchor(w, moving + t, w), b, b, ONE)
        v = torch.addcmul(v, task.grad(v, b).add(v - w, alpha=lam), -lr * ONE)
        assert torch.equal(one.model(w, state), v)


def test_the_moving_anchor_by_hand() -> None:
    # ∇F(1) = 1 − 5 = −4, λ(v − w_k) = 2·(1 − 77): 1 + 0.1·156
    one = ditto(bowl(), by(0.1), l2sq(), lam=2.0, anchor="moving")
    found = stepped(one, number(1.0), number(4.0), number(5.0))
    assert found.item() == pytest.approx(16.6, abs=1e-12)


@pytest.mark.parametrize("steps", [(3, 3), (2, 5), (5, 2)])
def test_the_moving_anchor_is_fmtls_algorithm(steps: tuple[int, int]) -> None:
    """Line 5, w_k and then v, for three rounds; the server is that of one client."""
    d, lr, lam, task = 5, 0.1, 0.8, bowl(0.9, d=5)
    draw = torch.Generator().manual_seed(2)
    w = torch.randn(d, generator=draw, dtype=torch.float64)
    own = ditto(task, by(lr), l2sq(), lam=lam, anchor="moving")
    budgets = Budget(steps=steps[0]), Budget(steps=steps[1])
    client = beside(fedavg(task, by(lr)), own, budgets)
    state, v, found = client.init(w), w.clone(), w.clone()
    for r in range(3):
        sent = Broadcast(found, w[:0], ONE)
        carry, moved = client.local.begin(sent, state), w.clone()
        for t in range(max(steps)):
            b = noisy(d, seed=10 * r + t)._replace(t=torch.tensor(t))
            carry = client.local.step(sent, carry, b, b)
            if t < steps[0]:
                moved = moved - lr * task.grad(moved, b)
            if t < steps[1]:
                v = v - lr * (task.grad(v, b) + lam * (v - moved))
        reply, state = client.local.end(sent, carry, state, b)
        w, found = moved, found + reply.update
        torch.testing.assert_close(found, w, rtol=0, atol=1e-13)
        torch.testing.assert_close(client.model(w, state), v, rtol=0, atol=1e-13)


def test_both_anchors_are_one_where_the_solver_stands_still() -> None:
    for lam in (0.0, 0.5):
        made = [
            ditto(bowl(), by(0.1), l2sq(), lam=lam, anchor=anchor)
            for anchor in ("shared", "moving")
        ]
        at = Anchor(number(4.0), number(4.0), number(4.0))
        b = batch(number(5.0))
        states = [one.step(one.init(number(1.0)), at, b, b, ONE) for one in made]
        assert torch.equal(states[0][0], states[1][0])


def test_without_pull_neither_anchor_does_harm() -> None:
    far = Anchor(number(float("inf")), number(float("nan")), number(float("inf")))
    b = batch(number(5.0))
    for anchor in ("shared", "moving"):
        one = ditto(bowl(), by(0.1), l2sq(), lam=0.0, anchor=anchor)
        (v,) = one.step(one.init(number(1.0)), far, b, b, ONE)
        assert v.item() == pytest.approx(1.4)


def test_options_and_references() -> None:
    assert lookup.check("personalizer", "ditto", {}) == {
        "lam": 1.0,
        "anchor": "shared",
        "choose": "side_by_side",
        "candidates": [0.1, 1.0, 2.0],
        "fallback": 1.0,
        "few": 4,
    }
    entries = lookup.about("personalizer", "ditto").citations
    assert [entry.split("{")[1] for entry in entries] == [
        "li2021ditto,\n  title=",
        "li2020multitask,\n  title=",
    ]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("lam", "otto", "personalizer.lam = 'otto' is a text; it must be a number or"),
        ("lam", True, "personalizer.lam = True is a truth value; it must be a number"),
        ("lam", [1.0], "personalizer.lam = [1.0] is a list; it must be a number or"),
        ("anchor", "fixed", "'fixed' is not one of 'shared', 'moving'"),
        ("choose", "best", "'best' is not one of 'side_by_side', 'paper', 'code'"),
        ("candidates", 1.0, "candidates = 1.0 is a number; it must be a list"),
        ("candidates", [1.0, "a"], "candidates[1] = 'a' is a text; it must be a numb"),
        ("few", 2.5, "personalizer.few = 2.5 is a number; it must be a whole number"),
    ],
)
def test_refuses_options_of_another_type(option: str, value: Any, words: str) -> None:
    with pytest.raises(Refusal, match=re.escape(words)):
        lookup.check("personalizer", "ditto", {option: value})


def test_auto_is_said_in_the_refusal_and_whole_numbers_are_numbers() -> None:
    with pytest.raises(Refusal, match="a number or 'auto'$"):
        lookup.check("personalizer", "ditto", {"lam": "Auto"})
    assert lookup.check("personalizer", "ditto", {"lam": "auto"})["lam"] == "auto"
    full = lookup.check("personalizer", "ditto", {"lam": 1, "candidates": [0, 2]})
    assert (full["lam"], full["candidates"]) == (1.0, [0.0, 2.0])
