"""Personalizers that make the client's update themselves, without a `[solver]`."""

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor

from troth.client.solvers._steps import Gradient, steps
from troth.types import (
    Broadcast,
    Budget,
    Carry,
    Client,
    Descent,
    Phase,
    Reply,
    Solver,
)

Start = Literal["own", "mean"]
"""Where the steps of a round begin: at the client's personal model ("own"), or at the
shared model ("mean"), which is the mean of the personal models."""


def owner(
    solver: Solver,
    budget: Budget,
    model: Callable[[Tensor, Carry], Tensor] = lambda w, state: state[0],
    shares: bool = True,
    **more: Any,
) -> Client:
    """Make a client whose work in a round is that of `solver`.

    Args:
        solver: Functions of the client's work, which use no validation data.
        budget: Number of steps or epochs in a round.
        model: Function (shared model, state) → parameters that the client predicts
            with.
        shares: Whether the update reveals the personal model.
        more: Further fields of the `Client`.
    """
    local = Phase(
        solver.begin,
        lambda broadcast, carry, batch, valid: solver.step(broadcast, carry, batch),
        lambda broadcast, carry, state, valid: solver.end(broadcast, carry, state),
        (budget,),
    )
    whole = {"finish": None} | more
    return Client(solver.init, local, model=model, shares_personal=shares, **whole)


def sent(
    descent: Descent,
    gradient: Gradient,
    budget: Budget,
    share: float = 1.0,
    start: Start = "own",
) -> Client:
    """Make a client whose v follows a gradient and whose update is share·(v − wᵗ).

    v is the personal model and wᵗ the shared model of the round. With the aggregator
    `mean`, the shared model is a running mean of the personal models. If all clients
    take part in every round, the shared model is exactly their mean.

    Args:
        descent: Optimizer and learning rate of v.
        gradient: Gradient that v follows.
        budget: Number of steps or epochs in a round.
        share: Size of a cohort, divided by the number of clients.
        start: Start of a round. With "own", v and the optimizer's moments are kept
            between rounds. With "mean", a round begins at v = wᵗ with new moments.
    """
    moving = steps(descent, gradient)

    def init(w0: Tensor) -> Carry:
        return (w0, *descent.init(w0)) if start == "own" else (w0,)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return state if start == "own" else moving.begin(broadcast, ())

    def end(broadcast: Broadcast, carry: Carry, state: Carry) -> tuple[Reply, Carry]:
        update = share * (carry[0] - broadcast.w)
        return Reply(update, broadcast.extra), carry[: len(state)]

    return owner(Solver(init, begin, moving.step, end), budget)
