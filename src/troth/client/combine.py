"""A solver and a personalizer side by side: one client that serves both models."""

from troth.engine import packing
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

    In every step the solver moves its w_k first, and the personal model then sees both
    the w that the round began with and this w_k (FMTL's Algorithm 1, line 5). Budgets
    and augments are those of solver and personalizer; with the same augment both see
    the same changes.
    """

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return solver.begin(broadcast, state[0]), state[1]

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        shared, own = carry
        apart = not personal.idle and budgets[0] != budgets[1]
        seen = augments[0](batch)
        mine = seen if augments[1] is augments[0] else augments[1](batch)
        shared_next = solver.step(broadcast, shared, seen)
        if apart:
            shared_next = packing.where(budgets[0].lasts(batch), shared_next, shared)
        anchor = Anchor(broadcast.w, shared_next[0], shared[0])
        own_next = personal.step(own, anchor, mine, valid, broadcast.scale)
        if apart:
            own_next = packing.where(budgets[1].lasts(batch), own_next, own)
        return shared_next, own_next

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        reply, kept = solver.end(broadcast, carry[0], state[0])
        return reply, (kept, carry[1])

    used = budgets[:1] if personal.idle else budgets
    finish, settle = personal.finish, personal.settle
    return Client(
        lambda w0: (solver.init(w0), personal.init(w0)),
        Phase(begin, step, end, used, personal.valid),
        _of_own(finish, augments[1]) if finish else None,
        lambda w, state: personal.model(w, state[1]),
        solver.extra,
        settle=settle and (lambda state, valid: (state[0], settle(state[1], valid))),
        columns=personal.columns,
        tell=lambda state: personal.tell(state[1]),
        idle=personal.idle,
    )


def seen_through(client: Client, augments: tuple[Augment, Augment]) -> Client:
    """A client that owns its reply, with a change made to every batch that it sees.

    The augments are those of the rounds and of what comes after the last one.
    """
    finish = _through(client.finish, augments[1]) if client.finish else None
    return client._replace(local=_through(client.local, augments[0]), finish=finish)


def _through(phase: Phase, augment: Augment) -> Phase:
    """A phase that sees its batches changed."""

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        return phase.step(broadcast, carry, augment(batch), valid)

    return phase if augment is as_it_is else phase._replace(step=step)


def _of_own(phase: Phase, augment: Augment) -> Phase:
    """A phase of the personalizer's state as one of the whole client's."""

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return phase.begin(broadcast, state[1])

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        reply, own = phase.end(broadcast, carry, state[1], valid)
        return reply, (state[0], own)

    return _through(phase, augment)._replace(begin=begin, end=end)
