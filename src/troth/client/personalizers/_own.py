"""Personal models that are trained by gradient steps in every round: ditto, local."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from troth.client.regularizers import _pull
from troth.types import Anchor, Batch, Carry, Descent, Personal, Regularizer, Task

Towards = Literal["shared", "moving"]
"""Model towards which a personal model is pulled: "shared" is the shared model that the
round began with, "moving" the copy of it that the client's solver is training."""


def own(
    descent: Descent, gradient: Callable[[Tensor, Anchor, Batch], Tensor]
) -> Personal:
    """Return a personalizer whose model v follows `gradient`(v, anchor, batch).

    State: v and the optimizer's moments.
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


def pulled(
    task: Task, descent: Descent, regularizer: Regularizer, lam: float, towards: Towards
) -> Personal:
    """Return a personalizer whose model v follows the gradient ∇F(v) + λ∇R(v, w).

    F is the client's loss, R the regularizer, and w the model that `towards` names.
    """
    along = _pull.gradient(task, regularizer, lam)
    return own(
        descent, lambda v, anchor, batch: along(v, place(anchor, towards), batch)
    )


def place(anchor: Anchor, towards: Towards) -> Tensor:
    """Return the model towards which a personal model is pulled."""
    return anchor.w if towards == "shared" else anchor.moving
