"""A personal model of the client's own that follows some gradient: ditto, local."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from troth.types import Anchor, Batch, Carry, Descent, Personal


def own(
    descent: Descent, gradient: Callable[[Tensor, Anchor, Batch], Tensor]
) -> Personal:
    """A personalizer whose state is v and its optimiser's moments.

    Args:
        descent: how v follows the gradient; its moments live on between rounds.
        gradient: of the personal objective, at (v, anchor, batch).
    """

    def init(w0: Tensor) -> Carry:
        return w0, *descent.init(w0)

    def step(
        state: Carry, anchor: Anchor, batch: Batch, valid: Batch, scale: Tensor
    ) -> Carry:
        v, *moments = state
        g = gradient(v, anchor, batch)
        v, rest = descent.step(v, g, tuple(moments), scale)
        return v, *rest

    return Personal(init, step, model=lambda w, state: state[0])
