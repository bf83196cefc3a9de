"""A personal model that is itself what the client sends: l2sgd, mixture."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from troth.client.solvers._steps import Gradient, steps
from troth.types import Batch, Broadcast, Budget, Carry, Client, Descent, Phase, Reply

Start = Literal["own", "mean"]
"""Where a round's steps begin: at the client's own model, or at the one received."""


def sent(
    descent: Descent,
    gradient: Gradient,
    budget: Budget,
    share: float = 1.0,
    start: Start = "own",
) -> Client:
    """A client whose v follows a gradient, and whose reply is share·(v − wᵗ).

    So the shared model is a running mean of personal ones; with all clients in every
    round, under the plain `mean`, it is their mean exactly.

    Args:
        descent: how v follows the gradient.
        gradient: of the personal objective, at (broadcast, v, batch).
        budget: how long in a round.
        share: of all clients, how much a round asks.
        start: "own": v and its moments live on between rounds; "mean": a round begins
            at wᵗ with new moments, as a solver's does.
    """
    solver = steps(descent, gradient)

    def init(w0: Tensor) -> Carry:
        return (w0, *descent.init(w0)) if start == "own" else (w0,)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return state if start == "own" else solver.begin(broadcast, ())

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        return solver.step(broadcast, carry, batch)

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        update = share * (carry[0] - broadcast.w)
        return Reply(update, broadcast.extra), carry[: len(state)]

    return Client(
        init,
        Phase(begin, step, end, (budget,)),
        finish=None,
        model=lambda w, state: state[0],
        shares_personal=True,
    )
