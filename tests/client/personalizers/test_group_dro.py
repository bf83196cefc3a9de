"""Fine-tuning for the group that fares worst."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from troth.client.personalizers.group_dro import group_dro
from troth.networks import task
from troth.types import Batch, Budget, Groups, Refusal, Task

from ..hand import by, sent
from ..small import PLANS, built, done

N, ONE = 5, 3  # clients, and the one with examples of one group only


def own(name="group_dro", **more):
    return {"name": name, "steps": 9, "without": "finetune", **more}


def drawn(ready, k, steps):
    """Slots and groups of what a client sees in every step."""
    data, feed = ready.data, ready.federation.engine.feed
    slots, weight = feed.draw(np.array([k]), steps, 3, by_group=True)
    pairs = zip(slots[:, 0], weight[:, 0], strict=True)
    held = [row[part > 0] for row, part in pairs]
    return [(row, data.group[data.train.row[row]].numpy()) for row in held]


def losses(ready, v, slots):
    """Of every example."""
    task.assign(ready.network, v)
    x, y = ready.data.x[ready.data.train.row[slots]], ready.data.train.y[slots]
    return cross_entropy(ready.network(x), y, reduction="none")


def step(ready, v, loss):
    grad = torch.autograd.grad(loss, list(ready.network.parameters()))
    return v - 0.1 * torch.cat([g.reshape(-1) for g in grad])


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.how)
def test_algorithm_1(grouped, plan):
    """On the same batches, in plain torch."""
    ready = built(grouped(own(step=0.5), "three"), plan)
    found = done(ready)
    for k in range(N):
        v, q = ready.federation.broadcast.w, np.full(3, 1 / 3)
        for slots, group in drawn(ready, k, 9):
            each = losses(ready, v, slots)
            for g in range(3):
                if (group == g).any():
                    mean = each.detach()[torch.from_numpy(group == g)].mean()
                    q[g] *= math.exp(0.5 * mean)
            q /= q.sum()
            part = torch.from_numpy(q[group] / q[group].sum())
            v = step(ready, v, (part * each).sum())
        assert torch.allclose(found[k], v, 0, 1e-12)
        assert k == ONE or q.max() > 0.4, "the weights have moved"


def test_limits_of_the_step(grouped):
    """0 keeps equal weights; a long one sees the batch's worst group alone."""
    first, moved, equal = (
        done(built(grouped(p, "three")))
        for p in (own(step=0.0), own(step=1.0), own("upweight"))
    )
    assert torch.allclose(first, equal, 0, 1e-14)
    apart = (moved - equal).abs().amax(1) > 1e-4
    assert apart.tolist() == [k != ONE for k in range(N)]
    ready = built(grouped(own(step=1e6, steps=1), "three"))
    found, w = done(ready), ready.federation.broadcast.w
    for k in range(N):
        [(slots, group)] = drawn(ready, k, 1)
        each = losses(ready, w, slots)
        worst = max(each[torch.from_numpy(group == g)].mean() for g in {*group})
        assert torch.allclose(found[k], step(ready, w, worst), 0, 1e-12)


def test_one_group_is_fine_tuning(grouped):
    """Of all clients, or of one among others; exactly, or but for rounding."""
    plain = {"name": "finetune", "steps": 9}
    pairs = [
        [done(built(grouped(p, groups))) for p in (own(step=3.0), plain)]
        for groups in ("one", "three")
    ]
    assert torch.equal(*pairs[0])
    assert torch.allclose(pairs[1][0][ONE], pairs[1][1][ONE], 0, 1e-14)


def problem():
    """The loss of an example is v·x: by hand its gradient is x."""

    def loss(v, batch):
        return (batch.weight * (batch.x @ v)).sum()

    def grad(v, batch):
        return (batch.weight[:, None] * batch.x).sum(0)

    return Task(1, 0, loss, grad, lambda v, x: x @ v)


def made(groups, rate):
    many = Groups(groups, np.array([groups]))
    return group_dro(problem(), by(1.0), Budget(steps=2), many, step=rate)


def test_worked_example():
    """v = 1, losses 1, 3 and 2 in groups 0, 0, 1: L = (2, 2) and q stays even.

    Then losses 1, 1, 3: q ∝ (1, e²) with η_q = 1.
    """
    one = made(2, 1.0)
    phase, zero = one.finish, torch.tensor(0)
    assert phase is not None and phase.by_group
    w = torch.tensor([1.0], dtype=torch.float64)
    told = sent(w)
    group = torch.tensor([0, 0, 1])

    def seen(*x):
        values = torch.tensor(x, dtype=torch.float64)[:, None]
        weight = torch.full((3,), 1 / 3, dtype=torch.float64)
        return Batch(values, values[:, 0], weight, zero, zero + 1, zero, group)

    carry = phase.begin(told, one.init(w))
    carry = phase.step(told, carry, seen(1, 3, 2), seen(0, 0, 0))
    assert carry[0].tolist() == [0, 0]  # log q, the largest being 0
    assert carry[1].item() == pytest.approx(1 - 2)  # all three alike
    carry = (carry[0], w, *carry[2:])
    carry = phase.step(told, carry, seen(1, 1, 3), seen(0, 0, 0))
    assert carry[0].tolist() == pytest.approx([-2, 0])
    e2 = math.exp(2)
    assert carry[1].item() == pytest.approx(1 - (1 + 1 + e2 * 3) / (1 + 1 + e2))
    _, (v, trained) = phase.end(told, carry, one.init(w), seen(0, 0, 0))
    assert v.item() == carry[1].item() and trained == 1


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(-5, 5), min_size=4, max_size=4),
    marks=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    step=st.floats(0, 50),
)
def test_weights_are_shares(values, marks, step):
    """The step is a weighted mean of the examples' gradients, whatever the draw."""
    one = made(3, step)
    w, zero = torch.ones(1, dtype=torch.float64), torch.tensor(0)
    x = torch.tensor(values, dtype=torch.float64)[:, None]
    weight = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)  # one padded
    clock = zero, zero + 1, zero
    batch = Batch(x, x[:, 0], weight, *clock, torch.tensor(marks))
    begun = one.finish.begin(sent(w), one.init(w))
    carry = one.finish.step(sent(w), begun, batch, batch)
    moved = float(w - carry[1])
    assert min(values[:3]) - 1e-9 <= moved <= max(values[:3]) + 1e-9
    assert carry[0].max() == 0 and carry[0].isfinite().all()


def test_refusals(grouped):
    words = "'group_dro' draws from several groups, and 1 of 5 clients"
    with pytest.raises(Refusal, match=words):
        built(grouped(own(without="refuse"), "three"), rounds=0)
    with pytest.raises(Refusal, match="the data have 7. of them; it takes at most 32"):
        built(grouped(own(), "many"), rounds=0)
