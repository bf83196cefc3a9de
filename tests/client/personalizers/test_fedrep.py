"""FedRep: a head of the client's own, trained first, on a shared representation."""

import functools

import pytest
import torch

from troth.client.personalizers.fedrep import fedrep
from troth.networks.flat import Masks
from troth.types import Budget, Task

from ..hand import batch, by, number, sent, worked
from ..small import LOOP, THREADS, TRACED, VMAP


def loss(v, batch):
    """F(φ, h) = ½(φ·h − x)²."""
    return 0.5 * (v[0] * v[1] - batch.x.mean()).square()


def made(mine, work, **options):
    product = Task(2, 0, loss, torch.func.grad(loss), lambda v, x: x)
    pair = torch.nn.Sequential(*(torch.nn.Linear(1, 1, bias=False) for _ in range(2)))
    return fedrep(product, by(0.1), by(0.1), work, mine, Masks(pair), **options)


@pytest.mark.parametrize(
    ("phi", "h", "steps", "head", "update"),
    [
        (2.0, 1.0, 2, 1.2, 0.072),  # h ← 1 + .1·2·1 = 1.2, then φ ← 2 + .1·1.2·.6
        (1.0, 1.2, 1, 1.38, 0.0),  # its own head: + .1·1.8; cut before φ has its turn
    ],
)
def test_a_round_by_hand(phi, h, steps, head, update):
    one = made(Budget(1), Budget(1))
    assert one.local.budgets == (Budget(2),)
    seen = [batch(3.0, t=t, per_epoch=2) for t in range(steps)]
    reply, state = worked(one.local, (number(h),), sent(number(phi, 9.0)), *seen)
    assert state[0].item() == pytest.approx(head, abs=1e-15)
    assert reply.update.tolist() == pytest.approx([update, 0.0], abs=1e-15)
    assert one.model(number(5.0, 7.0), state).tolist() == pytest.approx([5.0, head])


def test_a_turn_that_has_nothing_to_move_is_left_out():
    mine, work = Budget(4), Budget(epochs=1)
    for last, budget in ((0, work), (1, Budget(4, 1)), (2, mine)):
        assert made(mine, work, last=last).local.budgets == (budget,)


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
    """Modules and torch's optimizers; statistics move in their layer's turn."""
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

    adam, sgd = torch.optim.Adam, torch.optim.SGD
    quick = functools.partial(adam, lr=0.02, weight_decay=0.02)
    slow = functools.partial(sgd, lr=0.05, momentum=0.9, weight_decay=0.02)
    written_out(ours, own, turns, (quick, slow))


def test_a_client_with_little_time_trains_its_head(train):
    how = {"rounds": 2, "cohort": 6, "steps": 2}
    slow = {"deadline": 0.5, "speed_spread": 2.0}
    own = {"name": "fedrep", "steps": 4}
    ours = train(THREADS, "normed", own, train=how, availability=slow)
    f, moved = ours.built.federation, []
    for r, update in enumerate(ours.updates):
        steps = f.turnout(r, f.sample(r)).steps
        assert update.any(dim=1).tolist() == (steps > 4).tolist()
        moved += update.any(dim=1).tolist()
    assert 0 < sum(moved) < len(moved)
