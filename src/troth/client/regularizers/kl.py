"""A distance between the predictions of two models.

References: yu2020salvaging.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from troth.data import labels
from troth.types import Batch, Refusal, Regularizer, Task


def kl(task: Task) -> Regularizer:
    """Penalize differing predictions: ½·(KL(f(v) ‖ f(w)) + KL(f(w) ‖ f(v))).

    This is the symmetrized divergence of Ditto (Appendix F.2) between the personal
    model v and the shared model w. f denotes the predicted probabilities on the inputs
    of the batch: the softmax of the outputs. If the model has one output (a margin), f
    are the probabilities of its two classes. If examples may have several labels, every
    label is predicted separately, and the divergences of all labels are added. The
    value equals ½·Σ_c (p_c − q_c)(log p_c − log q_c), averaged over the batch, with the
    probabilities p_c of v and q_c of w for class c. Both models predict as after
    training: without dropout, and each with its own running statistics.
    """
    if task.classes == 0:
        raise Refusal(
            "the regularizer 'kl' compares predicted probabilities of classes, and "
            "this is a regression; set regularizer.name = 'l2sq'"
        )

    def between(outputs: Tensor, others: Tensor, batch: Batch) -> Tensor:
        one = batch.y.dim() == 1 or labels.soft(batch.y)
        single = one and outputs.shape[-1] > 1
        p, q = (_logs(f, single) for f in (outputs, others))
        each = 0.5 * ((p.exp() - q.exp()) * (p - q)).flatten(1).sum(dim=1)
        return (each * batch.weight).sum()

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        of_w = task.predict(w, batch.x)
        return between(task.predict(v, batch.x), of_w, batch)

    def grad(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        of_w = task.predict(w, batch.x)
        return task.slope(v, batch.x, lambda outputs: between(outputs, of_w, batch))

    return Regularizer(value, grad)


def _logs(outputs: Tensor, single: bool) -> Tensor:
    """Return log-probabilities: [b, k] of classes, or [b, k, 2] of yes and no."""
    if single:
        return outputs.log_softmax(dim=-1)
    return logsigmoid(torch.stack([outputs, -outputs], dim=-1))
