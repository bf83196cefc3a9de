"""FedRep: a head of the client's own, trained first, on a shared representation."""

import pytest
import torch

from troth.client.personalizers.fedrep import fedrep
from troth.networks.masks import Masks
from troth.types import Budget, Task

from ..hand import batch, by, number, sent
from ..hand import worked as through
from ..small import LOOP, THREADS, TRACED, VMAP


def loss(v, batch):
    """F(φ, h) = ½(φ·h − x)²."""
    return 0.5 * (v[0] * v[1] - batch.x.mean()).square()


PRODUCT = Task(2, 0, loss, torch.func.grad(loss), lambda v, x: x)
PAIR = torch.nn.Sequential(*(torch.nn.Linear(1, 1, bias=False) for _ in range(2)))


def made(mine, work, **options):
    return fedrep(PRODUCT, by(0.1), by(0.1), work, mine, Masks(PAIR), **options)


def worked(one, w, state, steps):
    seen = [batch(3.0, t=t, per_epoch=2) for t in range(steps)]
    return through(one.local, state, sent(number(*w)), *seen)


def test_a_round_by_hand():
    """From φ = 2, h = 1, x = 3: h ← 1 + .1·2·1 = 1.2, then φ ← 2 + .1·1.2·.6."""
    one = made(Budget(1), Budget(1))
    assert one.local.budgets == (Budget(2),)
    reply, state = worked(one, [2.0, 9.0], (number(1.0),), steps=2)
    assert state[0].item() == pytest.approx(1.2, abs=1e-15)
    assert reply.update.tolist() == pytest.approx([0.072, 0.0], abs=1e-15)
    v = one.model(number(5.0, 7.0), state)
    assert v.tolist() == pytest.approx([5.0, 1.2])


def test_the_next_round_begins_with_its_head():
    """h = 1.2 beside φ = 1: h ← 1.2 + .1·1.8 = 1.38."""
    reply, state = worked(
        made(Budget(1), Budget(1)), [1.0, 9.0], (number(1.2),), steps=1
    )
    assert state[0].item() == pytest.approx(1.38, abs=1e-15)
    assert reply.update.tolist() == [0.0, 0.0]  # it was cut before φ had its turn


@pytest.mark.parametrize(
    ("mine", "work", "both"),
    [
        (None, Budget(3), Budget(6)),
        (Budget(epochs=10), Budget(epochs=1), Budget(epochs=11)),
        (Budget(4), Budget(epochs=1), Budget(4, 1)),
    ],
)
def test_how_long(mine, work, both):
    """Where one turn has nothing to move it is left out."""
    assert made(mine, work).local.budgets == (both,)
    assert made(mine, work, last=0).local.budgets == (work,)
    assert made(mine, work, last=2).local.budgets == (mine or work,)


@pytest.mark.parametrize(
    ("plan", "own", "mine", "work"),
    [
        (LOOP, ("norm2", "fc"), {"epochs": 2}, {"epochs": 1}),
        pytest.param(VMAP, ("fc",), {"epochs": 2}, {"epochs": 1}, marks=TRACED),
        (THREADS, ("norm2", "fc"), {"steps": 3}, {"epochs": 1}),
        (THREADS, ("conv1", "norm1"), {}, {"steps": 4}),
    ],
)
def test_written_out(train, written_out, plan, own, mine, work):
    """Modules and torch's optimisers; statistics move in their layer's turn."""
    how = {"optimizer": "momentum", "lr": 0.05, "weight_decay": 0.02, **work}
    options = {"name": "fedrep", "layers": list(own), "optimizer": "adam", "lr": 0.02}
    ours = train(plan, "normed", options | mine, train=how)
    per_epoch = ours.built.federation.engine.feed.per_epoch.tolist()

    def turns(k):
        heads, bodies = (
            b.get("steps", 0) + b.get("epochs", 0) * per_epoch[k]
            for b in (mine or work, work)
        )
        return [(True, False)] * heads + [(False, True)] * bodies

    def slow(p):
        return torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.02)

    def quick(p):
        return torch.optim.Adam(p, lr=0.02, weight_decay=0.02)

    written_out(ours, own, turns, (quick, slow))


def test_a_client_with_little_time_trains_its_head(train):
    ours = train(
        THREADS,
        "normed",
        {"name": "fedrep", "steps": 4},
        train={"rounds": 2, "cohort": 6, "steps": 2},
        availability={"deadline": 0.5, "speed_spread": 2.0},
    )
    f = ours.built.federation
    idle = 0
    for r, update in enumerate(ours.updates):
        turnout = f.turnout(r, f.sample(r))
        for steps, one in zip(turnout.steps, update, strict=True):
            assert bool(one.any()) == (steps > 4)
            idle += int(steps <= 4)
    assert 0 < idle < 12


def test_its_head_is_near_its_best_before_the_body_moves(train):
    """With many steps of the head the body's update is that at the best head."""
    own = {"name": "fedrep", "steps": 150, "lr": 0.5}
    how = {"rounds": 1, "steps": 1, "batch": 0, "lr": 0.1, "weight_decay": 0.2}
    one = train(THREADS, "plain", own, train=how)
    more = train(THREADS, "plain", own | {"steps": 180}, train=how)
    few = train(THREADS, "plain", own | {"steps": 2}, train=how)
    assert (one.updates[0] - more.updates[0]).abs().max() <= 1e-7
    assert (one.updates[0] - few.updates[0]).abs().max() > 1e-3
