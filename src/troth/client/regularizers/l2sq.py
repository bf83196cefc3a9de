"""Half the squared Euclidean distance.

References: li2021ditto.
"""

from torch import Tensor

from troth.types import Batch, Regularizer


def l2sq() -> Regularizer:
    """½‖v − w‖², the pull of Ditto (its objective, and Eq. 2); gradient v − w."""

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        return 0.5 * (v - w).square().sum()

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        return v - w

    return Regularizer(value, grad, curvature=1.0, reach=float("inf"))
