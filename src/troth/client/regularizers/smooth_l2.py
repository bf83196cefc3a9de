r"""The Euclidean distance, rounded off near 0.

References: farhadkhani2022equivalence.
"""

import torch
from torch import Tensor

from troth.client.regularizers._pull import apart, length
from troth.types import Batch, Refusal, Regularizer, Task


def smooth_l2(task: Task, *, delta: float = 1.0) -> Regularizer:
    """√(δ² + ‖v − w‖²) − δ, the smooth ℓ2 regularization (Section 2.2, where δ = 1).

    Its gradient, (v − w)/√(δ² + ‖v − w‖²), is shorter than 1 everywhere: near w it
    pulls as `l2sq` divided by δ, far from it as `l2`. Running statistics of batch
    normalization are left out.

    Departs: the paper does not subtract δ, which makes no difference to gradients and
    lets the distance begin at 0.

    Args:
        task: Task of the client.
        delta: Width δ > 0 of the rounding; towards 0 it is `l2`. Where lr·λ ≥ 2δ, a
            step from near w leads further away, which is refused.
    """
    if not 0 < delta < float("inf"):
        raise Refusal(
            f"smooth_l2's delta = {delta} must be a finite number above 0; l2 is what "
            "0 would be"
        )

    def rounded(far: Tensor) -> Tensor:
        return torch.hypot(far, torch.full_like(far, delta))

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        far = length(apart(v, w, task))
        return far * (far / (rounded(far) + delta))  # does not cancel near w

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        away = apart(v, w, task)
        return away / rounded(length(away))

    return Regularizer(value, grad, curvature=1 / delta, reach=1.0)
