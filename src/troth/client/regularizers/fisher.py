"""Distance in which parameters weigh as much as the loss depends on them.

References: kirkpatrick2017overcoming.
"""

import torch
from torch import Tensor

from troth.types import Batch, Refusal, Regularizer, Task


def fisher(task: Task, *, power: float = 1.0, batches: int = 1) -> Regularizer:
    """½·Σ_i F_i·(v_i − w_i)², with F the diagonal of the empirical Fisher matrix at w.

    F_i = (∂F_k(w)/∂w_i)² on the batch of the step, as in the Ditto authors' code (which
    squares gradients of batches, not of examples; Ditto, F.2, EWC). It costs a second
    gradient a step. For Fisher information measured once, over several whole batches,
    see the personalizer `ewc`.

    Args:
        task: Task of the client.
        power: Exponent of F; 0: all parameters weigh the same, as in `l2sq`; 1:
            Fisher's.
        batches: Parts to split a batch into; F averages their squared gradients.
            Each weighs as its examples do; as many as there are examples gives the
            empirical Fisher information proper.
    """
    if not 0 <= power < float("inf"):
        raise Refusal(
            f"fisher's power = {power} must be a finite number of at least 0; "
            "1 is Fisher's, 0 is l2sq"
        )
    if batches < 1:
        raise Refusal(f"fisher's batches = {batches} must be at least 1")

    def root(w: Tensor, batch: Batch) -> Tensor:
        """Compute √F to the power, of which no square is too large."""
        total = torch.zeros_like(w)
        for part, share in _parts(batch, batches):
            total = total.hypot(task.grad(w, part) * share.sqrt())
        return total**power

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        return 0.5 * (root(w, batch) * (v - w)).square().sum()

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        steep = root(w, batch)
        return steep * (steep * (v - w))

    return Regularizer(value, grad, curvature=1.0 if power == 0 else 0.0)


def _parts(batch: Batch, batches: int) -> list[tuple[Batch, Tensor]]:
    """Cut a batch into so many (fewer, where it is short), each with its weight."""
    if batches == 1:
        return [(batch, torch.ones_like(batch.weight[0]))]
    parts = []
    for i in range(min(batches, len(batch.weight))):
        weight = batch.weight[i::batches]
        share = weight.sum()
        whole = weight / torch.where(share > 0, share, 1)
        x, y = batch.x[i::batches], batch.y[i::batches]
        parts.append((batch._replace(x=x, y=y, weight=whole), share))
    return parts
