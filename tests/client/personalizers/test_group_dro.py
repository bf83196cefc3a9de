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

from ..hand import F64, by, number, sent
from ..small import built, done, draws

N, ONE = 5, 3  # clients, and the one with examples of one group only


def own(name="group_dro", **more):
    return {"name": name, "steps": 9, "without": "finetune", **more}


def held(ready, k, steps):
    """Slots and groups of what a client sees in every step."""
    slots = draws(ready, k, 3, steps, by_group=True)
    group = ready.data.group[ready.data.train.row]
    return [(row, group[row].numpy()) for row in slots]


def losses(ready, v, slots):
    """Of every example."""
    task.assign(ready.network, v)
    x, y = ready.data.x[ready.data.train.row[slots]], ready.data.train.y[slots]
    return cross_entropy(ready.network(x), y, reduction="none")


def step(ready, v, loss):
    grad = torch.autograd.grad(loss, list(ready.network.parameters()))
    return v - 0.1 * torch.cat([g.reshape(-1) for g in grad])


def test_algorithm_1(grouped):
    """On the same batches, in plain torch."""
    ready = built(grouped(own(step=0.5), "three"))
    found = done(ready)
    for k in range(N):
        v, q = ready.federation.broadcast.w, np.full(3, 1 / 3)
        for slots, group in held(ready, k, 9):
            each = losses(ready, v, slots)
            for g in {*group}:
                q[g] *= math.exp(0.5 * each.detach()[group == g].mean())
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
        [(slots, group)] = held(ready, k, 1)
        each = losses(ready, w, slots)
        worst = max(each[group == g].mean() for g in {*group})
        assert torch.allclose(found[k], step(ready, w, worst), 0, 1e-12)


def test_one_group_is_fine_tuning(grouped):
    """Of all clients, or of one among others; exactly, or but for rounding."""
    for groups, who, within in (("one", slice(N), 0), ("three", ONE, 1e-14)):
        tuned = {"name": "finetune", "steps": 9}
        a, b = (done(built(grouped(p, groups)))[who] for p in (own(step=3.0), tuned))
        assert torch.allclose(a, b, 0, within)


def made(groups, rate):
    """One client; the loss of an example is v·x: by hand its gradient is x."""

    def loss(v, batch):
        return (batch.weight * (batch.x @ v)).sum()

    task = Task(1, 0, loss, torch.func.grad(loss), lambda v, x: x @ v)
    many = Groups(groups, np.array([groups]))
    return group_dro(task, by(1.0), Budget(steps=2), many, step=rate)


def seen(x, group, weight=1 / 3):
    x, zero = number(*x)[:, None], torch.tensor(0)
    weight = torch.full((len(x),), 1.0, dtype=F64) * weight
    return Batch(x, x[:, 0], weight, zero, zero + 1, zero, torch.tensor(group))


def test_worked_example():
    """v = 1, losses 1, 3 and 2 in groups 0, 0, 1: L = (2, 2) and q stays even.

    Then losses 1, 1, 3: q ∝ (1, e²) with η_q = 1.
    """
    one, w = made(2, 1.0), number(1.0)
    phase, told, valid = one.finish, sent(w), seen([0, 0, 0], [0, 0, 1])
    assert phase.by_group
    carry = phase.begin(told, one.init(w))
    carry = phase.step(told, carry, seen([1, 3, 2], [0, 0, 1]), valid)
    assert carry[0].tolist() == [0, 0]  # log q, the largest being 0
    assert carry[1].item() == pytest.approx(1 - 2)  # all three alike
    carry = (carry[0], w, *carry[2:])
    carry = phase.step(told, carry, seen([1, 1, 3], [0, 0, 1]), valid)
    assert carry[0].tolist() == pytest.approx([-2, 0])
    e2 = math.exp(2)
    assert carry[1].item() == pytest.approx(1 - (1 + 1 + e2 * 3) / (1 + 1 + e2))
    _, (v, trained) = phase.end(told, carry, one.init(w), valid)
    assert v.item() == carry[1].item() and trained == 1


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(-5, 5), min_size=4, max_size=4),
    marks=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    step=st.floats(0, 50),
)
def test_weights_are_shares(values, marks, step):
    """The step is a weighted mean of the examples' gradients, whatever the draw."""
    one, w = made(3, step), number(1.0)
    batch = seen(values, marks, number(0.5, 0.25, 0.25, 0.0))  # one padded
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
