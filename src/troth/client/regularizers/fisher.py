"""A distance that weighs each parameter by how strongly the loss depends on it.

References: kirkpatrick2017overcoming.
"""

import torch
from torch import Tensor

from troth.types import Batch, Refusal, Regularizer, Task


def fisher(task: Task, *, power: float = 1.0, batches: int = 1) -> Regularizer:
    """Penalize ½·Σ_i F_i·(v_i − w_i)², with the empirical Fisher information F at w.

    v is the personal and w the shared model. F_i = (∂ℓ(w)/∂w_i)² estimates the diagonal
    of the Fisher matrix, where ℓ is the client's loss on the batch of the step. Like
    the code of Ditto's authors, it squares gradients of batches, not of single examples
    (EWC in Appendix F.2 of Ditto). Every step costs a second gradient. In contrast, the
    personalizer `ewc` estimates F once, over several batches.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        power: Exponent of F_i, at least 0. 0 weighs all parameters equally, as `l2sq`
            does; 1 is the Fisher information.
        batches: Number of parts into which a batch is split. F_i is the mean of the
            parts' squared gradients, weighted by their numbers of examples. 1 squares
            the gradient of the whole batch. If every part is a single example, F_i is
            the exact empirical Fisher information.
    """
    if not 0 <= power < float("inf"):
        raise Refusal(
            f"fisher's power = {power} must be a finite number of at least 0; "
            "1 is Fisher's, 0 is l2sq"
        )
    if batches < 1:
        raise Refusal(f"fisher's batches = {batches} must be at least 1")

    def root(w: Tensor, batch: Batch) -> Tensor:
        """Return (√F)^power; `hypot` avoids squares, which could overflow."""
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
    """Split a batch into parts; return each part with its share of the examples.

    If the batch has fewer examples than `batches`, every example is a part.
    """
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
