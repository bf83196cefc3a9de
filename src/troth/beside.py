"""A solver and a personalizer side by side: one client that serves both models."""

from __future__ import annotations

import torch
from torch import Tensor

from troth import trees
from troth.types import (
    Anchor,
    Augment,
    Batch,
    Broadcast,
    Budget,
    Carry,
    Client,
    Personal,
    Phase,
    Reply,
    Solver,
)


def as_it_is(batch: Batch) -> Batch:
    """No change."""
    return batch


def beside(
    solver: Solver,
    personal: Personal,
    budgets: tuple[Budget, Budget],
    augments: tuple[Augment, Augment] = (as_it_is, as_it_is),
) -> Client:
    """Ditto's modularity (E.1): any solver for w, and v beside it on the same batches.

    In every step the personal model moves first, towards a w_k that the solver has
    not yet moved in this step (as the authors' code does).

    Args:
        solver: for the shared model.
        personal: for the client's own.
        budgets: how long (solver, personalizer) work in a round.
        augments: what each of them makes of a batch; where it is the same, both see
            the same changes.
    """

    def init(w0: Tensor) -> Carry:
        return solver.init(w0), personal.init(w0)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return solver.begin(broadcast, state[0]), state[1]

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        shared, own = carry
        anchor = Anchor(broadcast.w, shared[0])
        seen = augments[0](batch)
        mine = seen if augments[1] is augments[0] else augments[1](batch)
        own_next = personal.step(own, anchor, mine, valid, broadcast.scale)
        shared_next = solver.step(broadcast, shared, seen)
        if not personal.idle and budgets[0] != budgets[1]:
            shared_next = _while(budgets[0], batch, shared_next, shared)
            own_next = _while(budgets[1], batch, own_next, own)
        return shared_next, own_next

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        reply, kept = solver.end(broadcast, carry[0], state[0])
        return reply, (kept, personal.end(carry[1], valid))

    def model(w: Tensor, state: Carry) -> Tensor:
        return personal.model(w, state[1])

    used = budgets[:1] if personal.idle else budgets
    local = Phase(begin, step, end, used, personal.valid)
    return Client(
        init,
        local,
        _of_own(personal.finish) if personal.finish else None,
        model,
        solver.extra,
        columns=personal.columns,
        tell=lambda state: personal.tell(state[1]),
    )


def _of_own(phase: Phase) -> Phase:
    """A phase of the personalizer's state as one of the whole client's."""

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return phase.begin(broadcast, state[1])

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        reply, own = phase.end(broadcast, carry, state[1], valid)
        return reply, (state[0], own)

    return phase._replace(begin=begin, end=end)


def steps_of(budget: Budget, per_epoch: Tensor) -> Tensor:
    """How many steps a budget comes to where so many make an epoch."""
    if budget.steps:
        return torch.full_like(per_epoch, budget.steps)
    return budget.epochs * per_epoch


def _while(budget: Budget, batch: Batch, new: Carry, old: Carry) -> Carry:
    """`new` while the budget lasts, `old` after."""
    active = batch.t < steps_of(budget, batch.per_epoch)
    pairs = zip(trees.leaves(new), trees.leaves(old), strict=True)
    kept: Carry = trees.like(old, [torch.where(active, a, b) for a, b in pairs])
    return kept
