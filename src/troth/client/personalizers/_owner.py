"""Clients that make their update themselves: their work in a round is a solver's."""

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
"""Where a round's steps begin: at the client's own model, or at the one received."""


def owner(
    solver: Solver,
    budget: Budget,
    model: Callable[[Tensor, Carry], Tensor] = lambda w, state: state[0],
    shares: bool = True,
    **more: Any,
) -> Client:
    """Make a whole client of a solver, which does not look at validation data.

    It predicts with `model`, of w and its state, which its update reveals if `shares`;
    `more` are other fields of the client.
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
    """Make a client whose v follows a gradient, and whose update is share·(v − wᵗ).

    So the shared model is a running mean of personal ones; with all clients in every
    round, under the plain `mean`, it is their mean exactly. With start = "own" v and
    its moments live on between rounds; with "mean" a round begins at wᵗ with new
    moments, as a solver's does. `share` is how much of all clients a round asks.
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
