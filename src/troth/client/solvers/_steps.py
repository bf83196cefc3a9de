"""Local steps along a gradient, which several solvers share."""

from collections.abc import Callable

import torch
from torch import Tensor

from troth.types import Batch, Broadcast, Carry, Descent, Refusal, Reply, Solver

Gradient = Callable[[Broadcast, Tensor, Batch], Tensor]
"""Server's message, local model w_k and batch → the gradient that w_k follows."""


def steps(descent: Descent, gradient: Gradient) -> Solver:
    """Return a solver that starts from wᵗ, follows a gradient and sends w_k − wᵗ.

    wᵗ is the shared model of the round, and w_k the client's copy, which is trained.
    These are lines 5 and 7 of Ditto's Algorithm 2. The client keeps nothing between
    rounds: the optimizer's moments start anew in every round.
    """

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return broadcast.w, *descent.init(broadcast.w)

    def step(broadcast: Broadcast, carry: Carry, batch: Batch) -> Carry:
        w, *moments = carry
        g = gradient(broadcast, w, batch)
        w, rest = descent.step(w, g, tuple(moments), broadcast.scale)
        return w, *rest

    def end(broadcast: Broadcast, carry: Carry, state: Carry) -> tuple[Reply, Carry]:
        return Reply(carry[0] - broadcast.w, broadcast.extra), state

    return Solver(lambda w0: (), begin, step, end)


def plain(method: str, section: str, descent: Descent, hint: str = "") -> None:
    """Raise Refusal if the optimizer keeps moments; the method needs plain steps.

    The message names the method, the section of the experiment that sets the optimizer,
    and a further remedy (`hint`).
    """
    if descent.init(torch.zeros(1)):
        raise Refusal(
            f"{method} takes plain gradient steps, and the optimizer keeps moments; "
            f"set {section}.optimizer = 'sgd'{hint}"
        )
