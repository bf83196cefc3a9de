"""A personal model of the client's own that follows some gradient: ditto, local."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from troth.client.regularizers import _pull
from troth.types import Anchor, Batch, Carry, Descent, Personal, Regularizer, Task

Towards = Literal["shared", "moving"]
"""What a personal model is pulled towards."""


def own(
    descent: Descent, gradient: Callable[[Tensor, Anchor, Batch], Tensor]
) -> Personal:
    """Keep v and its optimizer's moments; v follows the gradient at its arguments."""

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


def pulled(
    task: Task, descent: Descent, regularizer: Regularizer, lam: float, towards: Towards
) -> Personal:
    """Follow ∇F(v) + λ∇R(v, w)."""
    along = _pull.gradient(task, regularizer, lam)
    return own(
        descent, lambda v, anchor, batch: along(v, place(anchor, towards), batch)
    )


def place(anchor: Anchor, towards: Towards) -> Tensor:
    """Return the model that a personal one is pulled towards."""
    return anchor.w if towards == "shared" else anchor.moving
