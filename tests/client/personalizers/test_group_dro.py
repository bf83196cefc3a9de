"""Fine-tuning for the group that fares worst."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from troth import build
from troth.client.client import descent
from troth.client.personalizers.group_dro import group_dro
from troth.config import reader
from troth.config.schema import Part
from troth.engine.engine import Plan
from troth.networks import task
from troth.runs.load import Run
from troth.types import Batch, Broadcast, Budget, Groups, Refusal, Task

Done = Callable[[build.Built], Tensor]
SIZES = [40, 12, 30, 24, 20]
N, ONE = len(SIZES), 3
LOOP = Plan("loop", 1)
LOOPED = {"how": "loop", "chunk": 1, "device": "cpu"}
PLANS = [LOOP, Plan("vmap", 3), Plan("threads", 1, 2)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three groups, in one of which the labels are turned round."""
    random = np.random.default_rng(0)
    owner = np.repeat(np.arange(N), SIZES)
    y = random.integers(0, 2, len(owner))
    x = (np.eye(2)[y] + random.normal(0, 0.8, (len(owner), 2))).astype(np.float32)
    group = np.arange(len(y)) % 3
    group[owner == ONE] = 2
    y = np.where((group == 1) & (random.random(len(y)) < 0.7), 1 - y, y)
    file = tmp_path_factory.mktemp("data") / "all.npz"
    np.savez(file, x=x, y=y, owner=owner, group=group)
    np.savez(file.parent / "plain.npz", x=x, y=y, owner=owner, group=0 * group)
    np.savez(file.parent / "many.npz", x=x, y=y, owner=owner, group=np.arange(len(y)))
    return file


def tree(path: Path, personalizer: Any, **sections: Any) -> dict[str, Any]:
    train = {"rounds": 3, "cohort": 4, "steps": 2, "batch": 6, "lr": 0.1}
    return {
        "seed": 2,
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "split": [0.6, 0.2, 0.2]},
        "personalizer": personalizer,
        "engine": {"device": "cpu"},
        "train": train | {"precision": "float64"},
    } | sections


def own(name: str = "group_dro", **more: Any) -> dict[str, Any]:
    return {"name": name, "steps": 9, "without": "finetune", **more}


def built(path: Path, personalizer: Any, plan: Plan = LOOP) -> build.Built:
    return build.build(reader.from_dict(tree(path, personalizer)), plan=plan)


def by_hand(ready: build.Built, k: int, steps: int, rate: float) -> tuple[Tensor, Any]:
    """Algorithm 1 on the same batches, in plain torch; and q at its end."""
    data, feed = ready.data, ready.federation.engine.feed
    v, q = ready.federation.broadcast.w.clone(), np.full(3, 1 / 3)
    slots, weight = feed.draw(np.array([k]), steps, 3, by_group=True)
    for row, part in zip(slots[:, 0], weight[:, 0], strict=True):
        here = row[part > 0]
        group = data.group[data.train.row[here]].numpy()
        task.assign(ready.network, v)
        x, y = data.x[data.train.row[here]], data.train.y[here]
        losses = cross_entropy(ready.network(x), y, reduction="none")
        for g in range(3):
            if (group == g).any():
                mean = losses.detach()[torch.from_numpy(group == g)].mean()
                q[g] *= math.exp(rate * mean)
        q /= q.sum()
        each = torch.from_numpy(q[group] / q[group].sum())
        loss = (each * losses).sum()
        grad = torch.autograd.grad(loss, list(ready.network.parameters()))
        v = v - 0.1 * torch.cat([g.reshape(-1) for g in grad])
    return v, q


@pytest.mark.parametrize("plan", PLANS)
def test_algorithm_1(done: Done, path: Path, plan: Plan) -> None:
    ready = built(path, own(step=0.5), plan)
    found = done(ready)
    for k in range(N):
        expected, q = by_hand(ready, k, 9, 0.5)
        assert torch.allclose(found[k], expected, 0, 1e-12)
        if k != ONE:
            assert q.max() > 0.4, "the weights have moved"


def test_step_0_keeps_equal_weights(done: Done, path: Path) -> None:
    found, equal = done(built(path, own(step=0.0))), done(built(path, own("upweight")))
    assert torch.allclose(found, equal, 0, 1e-14)
    moved = done(built(path, own(step=1.0)))
    apart = (moved - equal).abs().amax(1) > 1e-4
    assert apart.tolist() == [k != ONE for k in range(N)]


def test_one_group_is_fine_tuning(done: Done, path: Path) -> None:
    """Of all clients, or of one among others; exactly, or but for rounding."""
    plain = {"name": "finetune", "steps": 9}
    one = path.parent / "plain.npz"
    assert torch.equal(done(built(one, own(step=3.0))), done(built(one, plain)))
    found, tuned = done(built(path, own(step=3.0))), done(built(path, plain))
    assert torch.allclose(found[ONE], tuned[ONE], 0, 1e-14)


def test_a_long_step_sees_the_worst_group_alone(done: Done, path: Path) -> None:
    """One step: the gradient is that of the batch's worst group."""
    ready = built(path, own(step=1e6, steps=1))
    found = done(ready)
    data, feed, w = (
        ready.data,
        ready.federation.engine.feed,
        ready.federation.broadcast.w,
    )
    for k in range(N):
        slots, weight = feed.draw(np.array([k]), 1, 3, by_group=True)
        here = slots[0, 0][weight[0, 0] > 0]
        group = data.group[data.train.row[here]]
        task.assign(ready.network, w)
        x, y = data.x[data.train.row[here]], data.train.y[here]
        losses = cross_entropy(ready.network(x), y, reduction="none")
        worst = max(losses[group == g].mean() for g in group.unique())
        grad = torch.autograd.grad(worst, list(ready.network.parameters()))
        expected = w - 0.1 * torch.cat([g.reshape(-1) for g in grad])
        assert torch.allclose(found[k], expected, 0, 1e-12)


def problem() -> Task:
    """The loss of an example is v·x: by hand its gradient is x."""

    def loss(v: Tensor, batch: Batch) -> Tensor:
        return (batch.weight * (batch.x @ v)).sum()

    def grad(v: Tensor, batch: Batch) -> Tensor:
        return (batch.weight[:, None] * batch.x).sum(0)

    return Task(1, 0, loss, grad, lambda v, x: x @ v)


def test_worked_example() -> None:
    """v = 1, losses 1, 3 and 2 in groups 0, 0, 1: L = (2, 2) and q stays even.

    Then losses 1, 1, 3: q ∝ (1, e²) with η_q = 1.
    """
    part = Part("sgd")
    made = group_dro(
        problem(),
        descent(part, 1.0, 0.0),
        Budget(steps=2),
        Groups(2, np.array([2])),
        step=1.0,
    )
    phase, zero = made.finish, torch.tensor(0)
    assert phase is not None and phase.by_group
    w = torch.tensor([1.0], dtype=torch.float64)
    sent = Broadcast(w, w[:0], w.new_ones(()))
    group = torch.tensor([0, 0, 1])

    def seen(*x: float) -> Batch:
        values = torch.tensor(x, dtype=torch.float64)[:, None]
        weight = torch.full((3,), 1 / 3, dtype=torch.float64)
        return Batch(values, values[:, 0], weight, zero, zero + 1, zero, group)

    carry = phase.begin(sent, made.init(w))
    carry = phase.step(sent, carry, seen(1, 3, 2), seen(0, 0, 0))
    assert carry[0].tolist() == [0, 0]  # log q, the largest being 0
    assert carry[1].item() == pytest.approx(1 - 2)  # all three alike
    carry = (carry[0], w, *carry[2:])
    carry = phase.step(sent, carry, seen(1, 1, 3), seen(0, 0, 0))
    assert carry[0].tolist() == pytest.approx([-2, 0])
    e2 = math.exp(2)
    assert carry[1].item() == pytest.approx(1 - (1 + 1 + e2 * 3) / (1 + 1 + e2))
    _, (v, trained) = phase.end(sent, carry, made.init(w), seen(0, 0, 0))
    assert v.item() == carry[1].item() and trained == 1


@settings(max_examples=40, deadline=None)
@given(
    losses=st.lists(st.floats(-5, 5), min_size=4, max_size=4),
    marks=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    step=st.floats(0, 50),
)
def test_weights_are_shares(losses: list[float], marks: list[int], step: float) -> None:
    """The step is a weighted mean of the examples' gradients, whatever the draw."""
    part = Part("sgd")
    groups = Groups(3, np.array([3]))
    made = group_dro(
        problem(), descent(part, 1.0, 0.0), Budget(steps=1), groups, step=step
    )
    assert made.finish is not None
    w, zero = torch.ones(1, dtype=torch.float64), torch.tensor(0)
    x = torch.tensor(losses, dtype=torch.float64)[:, None]
    weight = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)  # one padded
    clock = zero, zero + 1, zero
    batch = Batch(x, x[:, 0], weight, *clock, torch.tensor(marks))
    sent = Broadcast(w, w[:0], w.new_ones(()))
    carry = made.finish.step(sent, made.finish.begin(sent, made.init(w)), batch, batch)
    moved = float(w - carry[1])
    assert min(losses[:3]) - 1e-9 <= moved <= max(losses[:3]) + 1e-9
    assert carry[0].max() == 0 and carry[0].isfinite().all()


def test_resumed(path: Path, resumed: Callable[[dict[str, Any]], Run]) -> None:
    run = resumed(tree(path, own(step=0.3), engine=LOOPED))
    assert (run.clients["accuracy"] >= 0).all()


# Refusals


def test_refusals(path: Path) -> None:
    words = "'group_dro' draws from several groups, and 1 of 5 clients"
    with pytest.raises(Refusal, match=words):
        built(path, own(without="refuse"))
    for value in (-0.1, math.nan, math.inf):
        with pytest.raises(Refusal, match=f"group_dro's step = {value} must be"):
            built(path, own(step=value))
    with pytest.raises(Refusal, match="the data have 7. of them; it takes at most 32"):
        built(path.parent / "many.npz", own())
