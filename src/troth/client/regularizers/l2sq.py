"""Half the squared Euclidean distance.

References: li2021ditto.
"""

from torch import Tensor

from troth.types import Batch, Regularizer


def l2sq() -> Regularizer:
    """Penalize ½‖v − w‖², as Ditto does (Eq. 2 of its paper).

    v is the personal and w the shared model. The gradient is v − w.
    """

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        return 0.5 * (v - w).square().sum()

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        return v - w

    return Regularizer(value, grad, curvature=1.0, reach=float("inf"))
