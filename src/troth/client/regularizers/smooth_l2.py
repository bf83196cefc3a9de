r"""The Euclidean distance, made smooth near 0.

References: farhadkhani2022equivalence.
"""

import torch
from torch import Tensor

from troth.client.regularizers._pull import apart, length
from troth.types import Batch, Refusal, Regularizer, Task


def smooth_l2(task: Task, *, delta: float = 1.0) -> Regularizer:
    """Penalize the smoothed distance √(δ² + ‖v − w‖²) − δ.

    v is the personal and w the shared model. This is the smooth ℓ2 regularization of
    Farhadkhani et al. 2022 (Section 2.2, where δ = 1). The norm of its gradient, (v −
    w)/√(δ² + ‖v − w‖²), is below 1 everywhere. Near w, the gradient is that of `l2sq`
    divided by δ; far from w, it is that of `l2`. Running statistics of batch
    normalization are left out.

    Departs: the paper does not subtract δ. Subtracting it changes no gradient and makes
    the distance 0 at v = w.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        delta: Width δ > 0 of the smooth region. δ → 0 is `l2`. If lr·λ ≥ 2δ (for plain
            `sgd`), steps near w diverge, and Refusal is raised.
    """
    if not 0 < delta < float("inf"):
        raise Refusal(
            f"smooth_l2's delta = {delta} must be a finite number above 0; for 0, set "
            "regularizer.name = 'l2'"
        )

    def rounded(far: Tensor) -> Tensor:
        return torch.hypot(far, torch.full_like(far, delta))

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        far = length(apart(v, w, task))
        return far * (far / (rounded(far) + delta))  # avoids cancellation near w

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        away = apart(v, w, task)
        return away / rounded(length(away))

    return Regularizer(value, grad, curvature=1 / delta, reach=1.0)
