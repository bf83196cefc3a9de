"""One client by hand: F(v) = ½·L·Σ weight·‖v − x‖², of gradient L·(v − mean x)."""

import torch

from troth import lookup
from troth.client.client import descent
from troth.config.schema import Part
from troth.types import Anchor, Batch, Broadcast, Task

F64 = torch.float64
NAN, INF = float("nan"), float("inf")
ONE = torch.ones((), dtype=F64)
OPTIMIZERS = lookup.names("optimizer")


def number(*x):
    return torch.tensor(x, dtype=F64)


def drawn(*shape, seed=1):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draw, dtype=F64)


def bowl(curvature=1.0, d=1):
    def loss(v, batch):
        away = (v - batch.x).square().sum(-1)
        return 0.5 * curvature * (batch.weight * away).sum()

    return Task(d, 0, loss, torch.func.grad(loss), lambda v, x: v.expand(len(x)))


BOWL = bowl()


def leaking(v, batch):
    """Gradients of `BOWL` and, as the last number, of a running statistic."""
    x = batch.x[0, 0]
    return torch.stack([v[0] - x, 0.5 * (v[1] - x)])


TAILED = BOWL._replace(d=2, grad=leaking, tail=1)


def batch(*x, padding=0, t=0, per_epoch=1, key=0):
    """Examples of equal weight, [b, 1], and some that are not there."""
    rows = number(*x, *[1e9] * padding)[:, None]
    there = number(*[1.0] * len(x), *[0.0] * padding) / max(1, len(x))
    return Batch(rows, rows, there, *map(torch.tensor, (t, per_epoch, key)))


def by(lr, optimizer="sgd", decay=0.0, tail=0, **options):
    part = Part(optimizer, lookup.check("optimizer", optimizer, options))
    return descent(part, lr, decay, tail)


def sent(w, scale=1.0, key=0):
    return Broadcast(w, w[:0], w.new_tensor(scale), torch.tensor(key))


def worked(phase, state, broadcast, *seen):
    """What a phase of a client that sees these batches ends with."""
    carry = phase.begin(broadcast, state)
    for one in seen:
        carry = phase.step(broadcast, carry, one, one)
    return phase.end(broadcast, carry, state, seen[0])


def round_(one, state, w, *x, scale=1.0, key=0):
    """The update and the state after a step on each of some examples."""
    seen = [batch(value, t=t) for t, value in enumerate(x)]
    reply, state = worked(one.local, state, sent(number(w), scale, key), *seen)
    assert reply.extra.shape == (0,)
    return reply.update.item(), state


def stepped(one, state, w, *x, before=None):
    """The state after steps beside a solver whose copy of w has gone to 77."""
    at = Anchor(number(w), number(77.0), number(w if before is None else before))
    for t, value in enumerate(x):
        seen = batch(value, t=t)
        state = one.step(state, at, seen, seen, ONE)
    return state


def solved(solver, broadcast, *seen, state=None):
    """What a solver that sees these batches ends with."""
    state = solver.init(broadcast.w) if state is None else state
    carry = solver.begin(broadcast, state)
    for one in seen:
        carry = solver.step(broadcast, carry, one)
    return solver.end(broadcast, carry, state)
