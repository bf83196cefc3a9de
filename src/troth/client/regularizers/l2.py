r"""The Euclidean distance.

References: farhadkhani2022equivalence.
"""

import torch
from torch import Tensor

from troth.client.regularizers._pull import apart, length
from troth.types import Batch, Regularizer, Task


def l2(task: Task) -> Regularizer:
    """Penalize the distance ‖v − w‖ (Farhadkhani et al. 2022, Section 2.2).

    v is the personal and w the shared model. The gradient is the unit vector from w to
    v, and 0 if both are equal. So the strength of the pull does not depend on how far
    an attack moves w. The curvature is unbounded at v = w. Near w, gradient steps of
    length lr·λ therefore overshoot, and v jumps around w at a distance of at most lr·λ.
    Running statistics of batch normalization are left out.
    """

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        return length(apart(v, w, task))

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        away = apart(v, w, task)
        far = length(away)
        return away / torch.where(far > 0, far, 1)

    return Regularizer(value, grad, reach=1.0)
