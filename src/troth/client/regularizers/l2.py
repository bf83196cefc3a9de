r"""The Euclidean distance.

References: farhadkhani2022equivalence.
"""

import torch
from torch import Tensor

from troth.client.regularizers._pull import apart, length
from troth.types import Batch, Regularizer, Task


def l2(task: Task) -> Regularizer:
    """‖v − w‖, the ℓ2 regularization of the attack-equivalence paper (Section 2.2).

    Its gradient is the unit vector from w to v, and 0 where they are equal: the pull is
    the same however far w was driven. It has no bounded curvature at v = w, where an
    explicit step of length lr·λ overshoots and jumps about w, by at most lr·λ.
    Running statistics of batch normalization are left out.
    """

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        return length(apart(v, w, task))

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        away = apart(v, w, task)
        far = length(away)
        return away / torch.where(far > 0, far, 1)

    return Regularizer(value, grad, reach=1.0)
